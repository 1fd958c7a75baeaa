"""Limits: the quota of the caller's project, in other words. See the compute API reference, "Limits"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.microversion import Version
from cumulet.api.query import only
from cumulet.api.request import Request, Response, ok
from cumulet.core import limits
from cumulet.core.policy import ADMIN, ANYONE

_RULE = "os_compute_api:limits"
OTHER = "os_compute_api:limits:other_project"
_ALWAYS: Version = (9999, 0)

#: Name, resource, and the last version that has it.
_LIMITS: tuple[tuple[str, str, Version], ...] = (
    ("maxTotalInstances", "instances", _ALWAYS),
    ("maxTotalCores", "cores", _ALWAYS),
    ("maxTotalRAMSize", "ram", _ALWAYS),
    ("maxTotalKeypairs", "key_pairs", _ALWAYS),
    ("maxServerMeta", "metadata_items", _ALWAYS),
    ("maxServerGroups", "server_groups", _ALWAYS),
    ("maxServerGroupMembers", "server_group_members", _ALWAYS),
    ("maxTotalFloatingIps", "floating_ips", (2, 35)),
    ("maxSecurityGroups", "security_groups", (2, 35)),
    ("maxSecurityGroupRules", "security_group_rules", (2, 35)),
    ("maxImageMeta", "metadata_items", (2, 38)),
    ("maxPersonality", "injected_files", (2, 56)),
    ("maxPersonalitySize", "injected_file_content_bytes", (2, 56)),
)
_USED: tuple[tuple[str, str, Version], ...] = (
    ("totalInstancesUsed", "instances", _ALWAYS),
    ("totalCoresUsed", "cores", _ALWAYS),
    ("totalRAMUsed", "ram", _ALWAYS),
    ("totalServerGroupsUsed", "server_groups", _ALWAYS),
    ("totalFloatingIpsUsed", "floating_ips", (2, 35)),
    ("totalSecurityGroupsUsed", "security_groups", (2, 35)),
)


async def index(request: Request) -> Response:
    """GET /limits"""
    if request.version >= (2, 75):
        only(request, "tenant_id")
    project_id = request.caller.project_id or ""
    other = request.arg("tenant_id")
    if other is not None:
        permit.require(request, OTHER)
        project_id = other
    lines = await request.cloud.db.read(limits.report, project_id)
    absolute = {name: lines[resource].limit for name, resource, last in _LIMITS if request.version <= last}
    absolute |= {name: lines[resource].used for name, resource, last in _USED if request.version <= last}
    return ok({"limits": {"rate": [], "absolute": absolute}})


RULES = {OTHER: ADMIN}
ROUTES = (Route("GET", "/v2.1/limits", index, _RULE, ANYONE),)
