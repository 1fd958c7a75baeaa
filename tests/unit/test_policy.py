"""The policy language reads checks as the upstream services do, and fails closed."""

from __future__ import annotations

from typing import Any

import pytest

from cumulet.app import policy as all_rules
from cumulet.core.policy import Policy
from cumulet.values import Caller

MEMBER = Caller(user_id="u", project_id="p", project_domain_id="d", roles=frozenset({"member", "reader"}))
ADMIN = Caller(user_id="a", project_id="x", roles=frozenset({"admin"}))
SYSTEM = Caller(user_id="s", system=True, roles=frozenset({"reader"}))
DOMAIN = Caller(user_id="m", domain_id="d", roles=frozenset({"manager"}))


def allows(check: str, caller: Caller, **target: Any) -> bool:
    return Policy({"x": check}).allows(
        "x", caller, {name.replace("__", "."): v for name, v in target.items()}
    )


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("@", True), ("!", False), ("", True), ("role:member", True), ("role:MEMBER", True), ("role:admin", False),
        ("not role:admin", True), ("role:admin or role:member", True), ("role:admin and role:member", False),
        ("role:member or role:admin and role:none", True), ("(role:member or role:admin) and role:none", False),
        ("not (role:admin or role:member)", False), ("not role:admin and role:member", True),
        ("rule:context_is_admin", False), ("is_admin:True", False), ("is_admin:1", False), ("is_admin:False", True),
        ("user_id:%(user_id)s", True), ("user_id:%(other)s", False), ("project_id:%(project_id)s", True),
        ("tenant_id:%(project_id)s", True), ("'t':%(kind)s", True), ("'x':%(kind)s", False),
        ("token.project.domain.id:%(target.domain.id)s", True), ("unknown:%(user_id)s", False),
        ("system_scope:all", False),
    ],
)  # fmt: skip
def test_checks(check: str, expected: bool) -> None:
    target = {"user_id": "u", "project_id": "p", "kind": "t", "target__domain__id": "d"}
    assert allows(check, MEMBER, **target) is expected


def test_scopes() -> None:
    assert allows("role:reader and system_scope:all", SYSTEM)
    assert not allows("role:reader and system_scope:all", MEMBER)
    assert allows("domain_id:%(target.user.domain_id)s", DOMAIN, target__user__domain_id="d")
    assert not allows("domain_id:%(target.user.domain_id)s", DOMAIN, target__user__domain_id="e")
    assert allows("token.domain.id:%(target.user.domain_id)s", DOMAIN, target__user__domain_id="d")


def test_who_has_no_domain_owns_nothing_that_has_none() -> None:
    assert not allows("domain_id:%(target.project.domain_id)s", MEMBER, target__project__domain_id=None)
    assert not allows("domain_id:%(target.project.domain_id)s", DOMAIN, target__project__domain_id=None)
    assert allows("None:%(target.role.domain_id)s", MEMBER, target__role__domain_id=None)
    assert not allows("None:%(target.role.domain_id)s", MEMBER, target__role__domain_id="d")
    assert not allows("None:%(target.role.domain_id)s", MEMBER)
    assert allows("domain_id:None", MEMBER)
    assert not allows("domain_id:None", DOMAIN)


def test_is_admin() -> None:
    for word in ("True", "true", "1"):
        assert allows(f"is_admin:{word}", ADMIN)
        assert not allows(f"is_admin:{word}", MEMBER)


@pytest.mark.parametrize("check", ["role:", "(role:a", "role:a or", "rule:none", "word", "role:a role:b"])
def test_what_is_no_check(check: str) -> None:
    if check == "role:":
        assert not allows(check, ADMIN)
        return
    with pytest.raises(ValueError, match="polic"):
        allows(check, ADMIN)


def test_every_rule_of_every_route_can_be_read() -> None:
    rules = all_rules()
    for name in rules.checks:
        assert rules.allows(name, MEMBER, {}) in (True, False)


def test_an_operator_replaces_a_rule() -> None:
    assert not all_rules().allows("identity:create_domain", MEMBER, {})
    assert all_rules(overrides={"identity:create_domain": "role:member"}).allows(
        "identity:create_domain", MEMBER, {}
    )
