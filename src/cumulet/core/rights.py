"""What a caller may do, where that depends on the thing that it is done to.

A rule of the Network API asks whose a port is, or whose network it is on, so it can be asked only once the
row was read: the core functions do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from cumulet.core.policy import Policy
from cumulet.errors import Forbidden
from cumulet.values import Caller

Reach = Literal["all", "own", "none"]

#: A project that nobody is in: a rule that passes for its things passes for everybody's.
_FOREIGN: Mapping[str, Any] = {"project_id": "", "network:project_id": "", "security_group:project_id": ""}


class Rights(msgspec.Struct, frozen=True):
    """The caller and the rules."""

    caller: Caller
    policy: Policy

    def may(self, rule: str, target: Mapping[str, Any]) -> bool:
        """True if the rule passes for a target: ``project_id``, ``network:project_id``, ``shared``, …"""
        return self.policy.allows(rule, self.caller, target)

    def demand(self, rule: str, target: Mapping[str, Any]) -> None:
        """Raise Forbidden unless the rule passes. Only for things that the caller may see."""
        if not self.may(rule, target):
            raise Forbidden(f"rule:{rule} is disallowed by policy")

    def reach(self, rule: str) -> Reach:
        """Whose things the rule opens: everybody's, those of the caller's own project, or nobody's."""
        if self.may(rule, _FOREIGN):
            return "all"
        own = self.caller.project_id
        if own and self.may(rule, dict.fromkeys(_FOREIGN, own)):
            return "own"
        return "none"

    def demand_each(self, rule: str, names: Iterable[str], target: Mapping[str, Any]) -> None:
        """Raise Forbidden unless every ``rule:name`` that exists passes."""
        for name in sorted(names):
            if f"{rule}:{name}" in self.policy.checks:
                self.demand(f"{rule}:{name}", target)

    @property
    def project(self) -> str:
        """The caller's project; "" without one."""
        return self.caller.project_id or ""
