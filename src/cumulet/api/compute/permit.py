"""Policy checks that need more than the route knows: another project's or user's things."""

from __future__ import annotations

from cumulet.api.request import Request
from cumulet.errors import Forbidden

#: Whether servers may be plugged into networks to the outside that are not shared.
EXTERNAL = "network:attach_external_network"


def allows(request: Request, rule: str, **target: str | None) -> bool:
    """True if the caller passes the rule for the target; what is not named is the caller's own."""
    caller = request.caller
    whole = {"project_id": caller.project_id, "user_id": caller.user_id, **target}
    return request.cloud.policy.allows(rule, caller, whole)


def require(request: Request, rule: str, **target: str | None) -> None:
    """Raise Forbidden unless ``allows``."""
    if not allows(request, rule, **target):
        raise Forbidden(f"Policy doesn't allow {rule} to be performed.")
