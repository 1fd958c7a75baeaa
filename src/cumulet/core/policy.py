"""Who may do what, in the upstream services' policy language.

    role:admin or (role:reader and project_id:%(project_id)s)

A rule is a name ("os_compute_api:servers:create") and a check. Each route names its rule and carries the
upstream default; an operator's file can replace checks by name. ``Policy.allows(rule, caller, target)``
decides. The language: ``and or not ( )``, ``@`` (always), ``!`` and the empty check (never and always, as
upstream reads them), ``role:NAME``, ``rule:NAME``, ``is_admin:True``, ``system_scope:all`` and
``attribute:value`` with ``%(name)s`` taken from the target: on the left of the colon stands an attribute of
the caller, or a literal, ``'text'`` or ``None``. ``field:resource:name=value`` looks at the target alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from cumulet.values import Caller

Target = Mapping[str, Any]
Check = Callable[[Caller, Target], bool]

ADMIN = "rule:context_is_admin"
MEMBER = "rule:project_member_or_admin"
READER = "rule:project_reader_or_admin"
MANAGER = "rule:project_manager_or_admin"
SERVICE = "rule:service_or_admin"
ANYONE = "@"
NOBODY = "!"

#: Who is an administrator, which core functions ask too.
_ADMINS = "context_is_admin"

#: The rules that others refer to.
BASE: Mapping[str, str] = {
    "context_is_admin": "role:admin",
    "admin_api": "role:admin",
    "admin_required": "role:admin",
    "admin_or_owner": "role:admin or project_id:%(project_id)s",
    "project_manager_api": "role:manager and project_id:%(project_id)s",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
    "project_member_or_admin": "rule:project_member_api or rule:context_is_admin",
    "project_reader_or_admin": "rule:project_reader_api or rule:context_is_admin",
    "service_api": "role:service",
    "service_or_admin": "rule:service_api or rule:context_is_admin",
}

_TOKEN = re.compile(r"\s*([()]|[^\s()]*(?:%\([^)]*\)s)[^\s()]*|[^\s()]+)")


class Policy:
    """All rules, parsed once."""

    def __init__(self, checks: Mapping[str, str]) -> None:
        self.checks = {**BASE, **checks}
        self._parsed: dict[str, Check] = {}
        #: True if an operator says who counts as an administrator.
        self.names_admins = self.checks[_ADMINS] != BASE[_ADMINS]

    def caller(self, caller: Caller) -> Caller:
        """The caller, an administrator if the rule ``context_is_admin`` says so."""
        if not self.names_admins:
            return caller
        return msgspec.structs.replace(caller, admin=self.allows(_ADMINS, caller, {}))

    def verify(self, names: Iterable[str]) -> None:
        """Raise ValueError, naming the rule, if one of the checks cannot be read, or leads back to itself."""
        for name in sorted(names):
            try:
                self._verify(name, ())
            except ValueError as error:
                raise ValueError(f"the rule {name!r}: {error}") from None

    def _verify(self, name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"it leads back to itself: {' -> '.join((*above, name))}")
        parse(self.checks[name], self)
        for word in leaves(self.checks[name]):
            kind, _, match = word.partition(":")
            if kind == "rule":
                self._verify(match, (*above, name))
            elif kind not in _KINDS and not _known(kind):
                raise ValueError(f"nobody has a {kind!r} that a check could ask for, as {word!r} does")

    def allows(self, rule: str, caller: Caller, target: Target) -> bool:
        """True if the caller passes the rule for a target ({"project_id": …, "user_id": …, …})."""
        check = self._parsed.get(rule)
        if check is None:
            check = self._parsed[rule] = parse(self.checks[rule], self)
        return check(caller, target)


def parse(text: str, policy: Policy) -> Check:
    """A check as a function. Raises ValueError, naming what was not understood."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return lambda caller, target: True
    check, rest = _either(tokens, policy)
    if rest:
        raise ValueError(f"policy check {text!r}: {rest[0]!r} was not expected")
    return check


def _either(tokens: list[str], policy: Policy) -> tuple[Check, list[str]]:
    left, tokens = _both(tokens, policy)
    while tokens and tokens[0].lower() == "or":
        right, tokens = _both(tokens[1:], policy)
        left = _or(left, right)
    return left, tokens


def _both(tokens: list[str], policy: Policy) -> tuple[Check, list[str]]:
    left, tokens = _one(tokens, policy)
    while tokens and tokens[0].lower() == "and":
        right, tokens = _one(tokens[1:], policy)
        left = _and(left, right)
    return left, tokens


def _one(tokens: list[str], policy: Policy) -> tuple[Check, list[str]]:
    if not tokens:
        raise ValueError("policy check ends where a check was expected")
    first, rest = tokens[0], tokens[1:]
    if first.lower() == "not":
        inner, rest = _one(rest, policy)
        return (lambda caller, target: not inner(caller, target)), rest
    if first == "(":
        inner, rest = _either(rest, policy)
        if not rest or rest[0] != ")":
            raise ValueError("policy check: a parenthesis is not closed")
        return inner, rest[1:]
    return _leaf(first, policy), rest


def _or(left: Check, right: Check) -> Check:
    return lambda caller, target: left(caller, target) or right(caller, target)


def _and(left: Check, right: Check) -> Check:
    return lambda caller, target: left(caller, target) and right(caller, target)


def _leaf(word: str, policy: Policy) -> Check:
    if word == "@":
        return lambda caller, target: True
    if word == "!":
        return lambda caller, target: False
    kind, colon, match = word.partition(":")
    if not colon:
        raise ValueError(f"policy check: {word!r} is not of the form kind:value")
    if kind in ("http", "https"):
        raise ValueError(f"policy check: {word!r} would ask another server; no check does")
    if kind == "rule":
        if match not in policy.checks:
            raise ValueError(f"policy check: there is no rule {match!r}")
        return lambda caller, target: policy.allows(match, caller, target)
    if kind == "role":
        return _role(match.lower())
    if kind == "is_admin":
        wanted = match.lower() in ("true", "1")
        return lambda caller, target: caller.is_admin is wanted
    if kind == "system_scope":
        return lambda caller, target: caller.system and match == "all"
    if kind == "field":
        return _field(match)
    return lambda caller, target: _equal(_attribute(caller, kind), match, target)


def _role(name: str) -> Check:
    """A role by name; the name can stand in the target: ``role:%(…)s``."""
    if "%(" not in name:
        return lambda caller, target: name in caller.roles

    def check(caller: Caller, target: Target) -> bool:
        try:
            return name % target in caller.roles
        except KeyError:
            return False

    return check


def _field(match: str) -> Check:
    """Network's check of the thing itself: ``field:networks:shared=True``, ``field:port:device_owner=~^net``."""
    name, _, wanted = match.partition(":")[2].partition("=")
    if wanted.startswith("~"):
        pattern = re.compile(wanted[1:])
        return lambda caller, target: pattern.match(str(target.get(name, ""))) is not None
    return lambda caller, target: name in target and str(target[name]) == wanted


#: Names of upstream's credentials that differ from ours.
_NAMES: Mapping[str, str] = {
    "tenant_id": "project_id",
    "tenant": "project_id",
    "token.domain.id": "domain_id",
    "token.project.domain.id": "project_domain_id",
}


#: Kinds of checks that ask for no attribute of the caller.
_KINDS = frozenset({"role", "is_admin", "system_scope", "field", "None"})


def _known(kind: str) -> bool:
    """True if callers have such an attribute, or it is a literal."""
    literal = kind.startswith("'") and kind.endswith("'")
    return literal or kind in _NAMES or kind in Caller.__struct_fields__


def leaves(text: str) -> list[str]:
    """The words of a check that ask for something: ``role:admin``, ``rule:…``."""
    words = _TOKEN.findall(text)
    return [word for word in words if ":" in word]


def _attribute(caller: Caller, kind: str) -> Any:
    if kind == "None":
        return kind
    if kind.startswith("'") and kind.endswith("'"):
        return kind[1:-1]
    return getattr(caller, _NAMES.get(kind, kind), None)


def _equal(found: Any, match: str, target: Target) -> bool:
    if found is None:
        # Nothing equals only the word itself: were it to equal a target's nothing, whoever has no domain
        # would own everything that has none.
        return match == "None"
    try:
        return str(found) == match % target
    except KeyError:
        return False
