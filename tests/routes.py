"""The route tables as requests: what stands in the paths, and bodies that are valid.

A route whose path or body is not known here cannot be asked, and the tests that go over all routes fail then, so
that a new route is thought of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cumulet.api.asgi import LAST, Area, Route
from cumulet.app import AREAS, policy
from cumulet.values import Caller

#: What a path's parameter is, by area and by the literal before it: a thing of a project or user, by its name in
#: tests.tenants.
OWNED: Mapping[str, str] = {
    "identity users": "user",
    "identity projects": "project",
    "identity application_credentials": "application_credential",
    "identity access_rules": "access_rule",
    "identity credentials": "credential",
    "identity OS-EC2": "ec2",
    "identity trusts": "trust",
    "image images": "image",
    "image {store}": "image",  # stores/{store}/{image_id}
    "image namespaces": "namespace",
    "compute flavors": "flavor",
    "compute images": "image",
    "compute os-keypairs": "keypair",
    "compute os-server-groups": "server_group",
    "compute os-quota-sets": "project",
    "compute os-simple-tenant-usage": "project",
    "compute servers": "server",
    "compute os-volumes_boot": "server",
    "compute os-networks": "network",
    "compute os-tenant-networks": "network",
    "compute os-floating-ips": "floatingip",
    "compute os-security-groups": "security_group",
    "compute os-security-group-rules": "rule",
    "compute os-volume_attachments": "attached_volume",
    "compute os-interface": "port",
    "compute os-instance-actions": "request",
    "compute os-volumes": "volume",
    "compute os-snapshots": "snapshot",
    "compute os-assisted-volume-snapshots": "snapshot",
    "network networks": "network",
    "network subnets": "subnet",
    "network subnetpools": "pool",
    "network ports": "port",
    "network security-groups": "security_group",
    "network security-group-rules": "rule",
    "network routers": "router",
    "network floatingips": "floatingip",
    "network rbac-policies": "policy",
    "network trunks": "trunk",
    "network quotas": "project",
    "network auto-allocated-topology": "project",
    "network network-ip-availabilities": "network",
    "placement allocations": "server",
    "volume volumes": "volume",
    "volume snapshots": "snapshot",
    "volume attachments": "attachment",
    "volume backups": "backup",
    "volume types": "type",
    "volume default-types": "project",
    "volume os-quota-sets": "project",
    "volume messages": "message",
    "volume volume-transfers": "transfer",
    "volume os-volume-transfer": "transfer",
    "volume groups": "group",
    "volume group_snapshots": "group_snapshot",
}
#: A part of such a thing, by what it is called in everybody's things.
PARTS: Mapping[str, str] = {
    "compute metadata": "key",
    "compute tags": "tag",
    "compute ips": "n",
    "compute consoles": "none",
    "compute migrations": "1",
    "compute os-extra_specs": "key",
    "identity tags": "tag",
    "image tags": "tag",
    "image members": "{service_project}",
    "image objects": "part",
    "image properties": "part",
    "image resource_types": "OS::Nova::Server",
    "network tags": "tag",
    "volume metadata": "key",
    "volume extra_specs": "a:key",
    "volume encryption": "none",
    "volume group_specs": "key",
}
#: What belongs to no project.
COMMON: Mapping[str, str] = {
    "agent answers": "none",
    "agent bytes": "none",
    "agent claims": "none",
    "compute entries": "none",
    "compute extensions": "servers",
    "compute os-agents": "1",
    "compute os-aggregates": "1",
    "compute os-baremetal-nodes": "none",
    "compute os-cells": "none",
    "compute os-certificates": "root",
    "compute os-cloudpipe": "none",
    "compute os-fixed-ips": "none",
    "compute os-floating-ip-dns": "none",
    "compute os-floating-ips-bulk": "none",
    "compute os-fping": "none",
    "compute os-hosts": "h1",
    "compute os-hypervisors": "{host}",
    "compute os-instance_usage_audit_log": "2026-01-01 00:00:00",
    "compute os-quota-class-sets": "default",
    "compute os-security-group-default-rules": "none",
    "compute os-services": "{service}",
    "compute versions": "v2.1",
    "cumulet agents": "none",
    "cumulet faults": "none",
    "cumulet orphans": "none",
    "identity config": "identity",
    "identity consumers": "none",
    "identity domains": "default",
    "identity endpoint_groups": "none",
    "identity endpoints": "none",
    "identity groups": "none",
    "identity {group}": "driver",  # domains/config/{group}/{option}
    "identity identity": "driver",
    "identity implies": "none",
    "identity limits": "none",
    "identity policies": "none",
    "identity regions": "RegionOne",
    "identity registered_limits": "none",
    "identity roles": "none",
    "identity security_compliance": "password_regex",
    "identity services": "none",
    "image stores": "file",
    "image tasks": "none",
    "network agents": "{host}",
    "network extensions": "router",
    "placement inventories": "VCPU",
    "placement resource_classes": "VCPU",
    "placement resource_providers": "{host}",
    "placement traits": "HW_CPU_X86_AVX",
    "volume capabilities": "sim@sim",
    "volume extensions": "os-hosts",
    "volume group_types": "{group_type}",
    "volume os-hosts": "sim@sim",
    "volume os-quota-class-sets": "default",
    "volume qos-specs": "none",
}

#: The same, by what tests.tenants.operate makes.
OPERATED: Mapping[str, str] = {
    "agent answers": "question",
    "agent bytes": "need",
    "agent claims": "claim",
    "compute os-aggregates": "aggregate",
    "compute os-services": "service",
    "cumulet agents": "agent",
    "cumulet faults": "fault",
    "identity consumers": "consumer",
    "identity domains": "domain",
    "identity endpoint_groups": "endpoint_group",
    "identity endpoints": "endpoint",
    "identity groups": "group_of_users",
    "identity implies": "implied_role",
    "identity limits": "limit",
    "identity policies": "stored_policy",
    "identity regions": "region",
    "identity registered_limits": "registered_limit",
    "identity roles": "role",
    "identity services": "identity_service",
    "placement resource_classes": "class",
    "placement traits": "trait",
    "volume qos-specs": "qos",
}

_PARAMETER = re.compile(r"\{(\w+)\}")


def lines() -> Iterator[tuple[Area, Route]]:
    """Every line of every table."""
    for area in AREAS:
        for route in area.routes:
            yield area, route


def key(area: Area, route: Route) -> str:
    """How a line is named in tests.bodies, and in failures."""
    return f"{area.name} {route.method} {route.path} {route.action}".strip()


def parameters(area: Area, route: Route) -> list[tuple[str, str]]:
    """The parameters of a path in order: (kind, value), where kind is "owned", "part" or "common".

    The value of "owned" is a name of tests.tenants. Raises KeyError for a parameter that no table knows.
    """
    found = []
    before = ""
    for segment in route.path.strip("/").split("/"):
        if segment.startswith("{"):
            where = f"{area.name} {before}"
            for kind, table in (("owned", OWNED), ("part", PARTS), ("common", COMMON)):
                if where in table:
                    found.append((kind, table[where]))
                    break
            else:
                raise KeyError(f"{key(area, route)}: nothing is known of {segment} behind {before!r}")
        before = segment
    return found


def path_of(area: Area, route: Route, values: list[str]) -> str:
    """The path with those values in the places of its parameters."""
    left = iter(values)
    return area.prefix.rstrip("/") + _PARAMETER.sub(lambda match: next(left), route.path)


def version_of(area: Area, route: Route) -> str:
    """The newest version that the line answers, as a header's value; "" where there are none."""
    if area.versions is None:
        return ""
    newest = area.versions.maximum if route.until == LAST else min(route.until, area.versions.maximum)
    return f"{area.versions.service} {newest[0]}.{newest[1]}"


def holes(body: Any) -> set[str]:
    """The names of the things in a body."""
    if isinstance(body, str):
        return set(_PARAMETER.findall(body))
    values = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return set().union(*map(holes, values))


def filled(body: Any, fill: Callable[[str], str]) -> Any:
    """A body of tests.bodies with ids in it."""
    if isinstance(body, str):
        return _PARAMETER.sub(lambda match: fill(match[1]), body)
    if isinstance(body, dict):
        return {filled(name, fill): filled(value, fill) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, fill) for value in body]
    return body


class _Own(dict[str, Any]):
    """A target all of which is the caller's own."""

    def __missing__(self, name: str) -> str:
        return "p" if name.endswith(("project_id", "tenant_id", "owner")) else "u"


_POLICY = policy()
_MEMBER = Caller(user_id="u", project_id="p", roles=frozenset({"member", "reader"}))


def members_may(rule: str) -> bool:
    """True if the rule lets a member do it with what is the member's own."""
    return _POLICY.allows(rule, _MEMBER, _Own())
