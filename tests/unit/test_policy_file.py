"""An operator's policy file: what is read, what is refused with the name of the rule, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
import yaml

from cumulet import policy_file
from cumulet.app import policy, rules, uses
from cumulet.config import Config
from cumulet.errors import Refused
from cumulet.exits import BAD_SETTINGS
from cumulet.values import Caller

BUILDER = Caller(user_id="u", project_id="p", roles=frozenset({"builder"}))
READER = Caller(user_id="r", project_id="p", roles=frozenset({"reader"}))


def written(directory: Path, text: str) -> Config:
    file = directory / "policy.yaml"
    file.write_text(text)
    return Config(policy_file=str(file))


def test_rules_are_replaced_by_name_and_the_others_stay(tmp_path: Path) -> None:
    made = rules(
        written(
            tmp_path,
            """
            # a comment
            "builders": "role:builder and project_id:%(project_id)s"
            "os_compute_api:servers:create": "rule:builders or rule:context_is_admin"
            os_compute_api:servers:show: "!"
            os_compute_api:servers:detail: []
            os_compute_api:servers:delete: [["role:builder", "user_id:%(user_id)s"], ["role:none"]]
            os_compute_api:servers:update: ["role:none", "role:builder"]
            """,
        )
    )
    mine, other = {"project_id": "p", "user_id": "u"}, {"project_id": "q", "user_id": "v"}
    assert made.allows("os_compute_api:servers:create", BUILDER, mine)
    assert not made.allows("os_compute_api:servers:create", BUILDER, other)
    assert not made.allows("os_compute_api:servers:create", READER, mine)
    assert not made.allows("os_compute_api:servers:show", READER, mine)
    assert made.allows("os_compute_api:servers:detail", READER, other)
    assert made.allows("os_compute_api:servers:delete", BUILDER, mine)
    assert not made.allows("os_compute_api:servers:delete", BUILDER, other)
    assert made.allows("os_compute_api:servers:update", BUILDER, other)
    default = policy()
    assert {n: c for n, c in made.checks.items() if default.checks.get(n) != c}.keys() == {
        "builders",
        *(f"os_compute_api:servers:{name}" for name in ("create", "show", "detail", "delete", "update")),
    }


def test_json_and_an_empty_file_are_files_too(tmp_path: Path) -> None:
    made = rules(written(tmp_path, '{"volume:delete": "role:builder"}'))
    assert made.allows("volume:delete", BUILDER, {})
    assert rules(written(tmp_path, "# nothing\n")).checks == policy().checks


def test_a_role_can_be_named_by_the_thing() -> None:
    made = policy(overrides={"x": "role:%(wanted)s"})
    assert made.allows("x", BUILDER, {"wanted": "builder"})
    assert not made.allows("x", BUILDER, {"wanted": "reader"})
    assert not made.allows("x", BUILDER, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"volume:delete": "role:a or"', ("'volume:delete'", "ends where")),
        ('"volume:delete": "(role:a"', ("'volume:delete'", "parenthesis")),
        ('"volume:delete": "nonsense"', ("'volume:delete'", "'nonsense'")),
        ('"volume:delete": "rule:nowhere"', ("'volume:delete'", "no rule 'nowhere'")),
        ('"volume:delete": "http://other/%(name)s"', ("'volume:delete'", "another server")),
        ('"volume:delete": "rol:admin"', ("'volume:delete'", "'rol'")),
        ('"a": "rule:b"\n"b": "rule:a"', ("'a'", "a -> b -> a")),
        (
            '"context_is_admin": "rule:admin_or_context"\n"admin_or_context": "rule:context_is_admin"',
            ("itself",),
        ),
        ('"volume:delete": true', ("'volume:delete'", '"@"')),
        ('"volume:delete":', ("'volume:delete'",)),
        ('"volume:delete": [[1]]', ("'volume:delete'",)),
        ('- "volume:delete"', ("names of rules",)),
        ('"volume:delete', ("YAML",)),
        ("\x00", ("YAML",)),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        rules(written(tmp_path, text))
    for word in ("policy.yaml", "docs/policy.md", *words):
        assert word in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.exit_code == BAD_SETTINGS


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"policy\.yaml cannot be read: No such file"):
        rules(Config(policy_file=str(tmp_path / "policy.yaml")))


def test_rules_that_nothing_asks_for_are_told(tmp_path: Path) -> None:
    text = '"volume:delet": "@"\n"helper": "role:a"\n"volume:delete": "rule:helper"\n'
    with structlog.testing.capture_logs() as logs:
        rules(written(tmp_path, text))
    assert [line["rule"] for line in logs] == ["volume:delet"]


def test_who_is_an_administrator() -> None:
    made = policy(overrides={"context_is_admin": "role:builder"})
    assert made.caller(BUILDER).is_admin
    assert not made.caller(READER).is_admin
    assert not made.caller(Caller(user_id="a", roles=frozenset({"admin"}))).is_admin
    assert policy().caller(BUILDER) is BUILDER


def test_what_is_printed_is_a_file_again(tmp_path: Path) -> None:
    made = policy()
    text = policy_file.text(made.checks, uses())
    assert yaml.safe_load(text) == made.checks
    assert "# compute POST /v2.1/servers/{server_id}/action: reboot\n" in text
    assert rules(written(tmp_path, text)).checks == made.checks


def test_a_rule_has_one_default() -> None:
    """Two routes with one rule and two defaults would leave it to chance which of them is in force."""
    from cumulet.app import AREAS

    seen: dict[str, str] = {}
    for area in AREAS:
        for route in area.routes:
            if route.rule:
                assert seen.setdefault(route.rule, route.check) == route.check, route
                assert area.rules.get(route.rule, route.check) == route.check, route
