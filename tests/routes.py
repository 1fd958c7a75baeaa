"""The route tables as requests: what stands in the paths, and bodies that are valid.

A route whose path or body is not known here cannot be asked, and the tests that go over all routes fail then, so
that a new route is thought of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cumulet.api.asgi import LAST, Area, Route
from cumulet.app import AREAS

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

_ACTION_OF_SERVER: Mapping[str, Any] = {
    "addFloatingIp": {"address": "192.0.2.9"},
    "removeFloatingIp": {"address": "192.0.2.9"},
    "os-start": None,
    "os-stop": None,
    "reboot": {"type": "SOFT"},
    "lock": None,
    "unlock": None,
    "os-resetState": {"state": "error"},
    "injectNetworkInfo": None,
    "forceDelete": None,
    "shelve": None,
    "shelveOffload": None,
    "unshelve": None,
    "addSecurityGroup": {"name": "default"},
    "removeSecurityGroup": {"name": "default"},
    "addFixedIp": {"networkId": "{network}"},
    "removeFixedIp": {"address": "192.0.2.9"},
    "os-getConsoleOutput": {},
    "pause": None,
    "unpause": None,
    "suspend": None,
    "resume": None,
    "restore": None,
    "rescue": {"rescue_image_ref": "{image}"},
    "unrescue": None,
    "rebuild": {"imageRef": "{image}"},
    "changePassword": {"adminPass": "x"},
    "createImage": {"name": "x"},
    "createBackup": {"name": "x", "backup_type": "daily", "rotation": 1},
    "resize": {"flavorRef": "{flavor}"},
    "confirmResize": None,
    "revertResize": None,
    "migrate": None,
    "os-migrateLive": {"host": None, "block_migration": "auto"},
    "evacuate": {},
}
_ACTION_OF_VOLUME: Mapping[str, Any] = {
    "os-attach": {"instance_uuid": "{server}", "mountpoint": "/dev/vdc"},
    "os-detach": {},
    "os-reserve": None,
    "os-unreserve": None,
    "os-begin_detaching": None,
    "os-roll_detaching": None,
    "os-initialize_connection": {"connector": {"host": "h"}},
    "os-terminate_connection": {"connector": {"host": "h"}},
    "os-volume_upload_image": {"image_name": "i"},
    "os-extend": {"new_size": 2},
    "os-update_readonly_flag": {"readonly": True},
    "os-retype": {"new_type": "standard", "migration_policy": "never"},
    "os-set_bootable": {"bootable": True},
    "os-reimage": {"image_id": "{image}"},
    "revert": {"snapshot_id": "{snapshot}"},
    "os-show_image_metadata": None,
    "os-set_image_metadata": {"metadata": {"key": "v"}},
    "os-unset_image_metadata": {"key": "key"},
    "os-reset_status": {"status": "error"},
    "os-force_detach": {"connector": {"host": "h"}},
    "os-force_delete": None,
}
#: Network's nouns with a change to each.
_NETWORK: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "networks": ("network", {"name": "x"}),
    "subnets": ("subnet", {"name": "x"}),
    "subnetpools": ("subnetpool", {"name": "x"}),
    "ports": ("port", {"name": "x"}),
    "security-groups": ("security_group", {"name": "x"}),
    "routers": ("router", {"name": "x"}),
    "floatingips": ("floatingip", {"port_id": None}),
    "trunks": ("trunk", {"name": "x"}),
    "rbac-policies": ("rbac_policy", {"target_tenant": "{project}"}),
}
_TAGGED = set(_NETWORK) - {"rbac-policies"}
_SUBPORT = {"sub_ports": [{"port_id": "{loose_port}", "segmentation_type": "vlan", "segmentation_id": 9}]}
_METADATA, _TAGS = {"metadata": {"key": "w"}}, {"tags": ["tag"]}

#: "area METHOD path action" → a valid body; {name} stands for the id of a thing.
BODIES: dict[str, Any] = {
    "identity POST /v3/users/{user_id}/application_credentials": {"application_credential": {"name": "x"}},
    "identity PATCH /v3/credentials/{credential_id}": {"credential": {"blob": "x"}},
    "identity POST /v3/users/{user_id}/credentials/OS-EC2": {"tenant_id": "{project}"},
    "identity POST /v3/users/{user_id}/password": {"user": {"original_password": "x", "password": "y"}},
    "image PATCH /v2/images/{image_id}": [{"op": "replace", "path": "/name", "value": "x"}],
    "image POST /v2/images/{image_id}/actions/deactivate": None,
    "image POST /v2/images/{image_id}/actions/reactivate": None,
    "image PUT /v2/images/{image_id}/tags/{tag}": None,
    "image PUT /v2/images/{image_id}/file": b"bytes",
    "image PUT /v2/images/{image_id}/stage": b"bytes",
    "image POST /v2/images/{image_id}/members": {"member": "{project}"},
    "image POST /v2/images/{image_id}/import": {"method": {"name": "glance-direct"}},
    "compute POST /v2.1/os-fixed-ips/{id}/action": {"reserve": None},
    "compute POST /v2.1/os-networks/{id}/action": {"disassociate": None},
    "compute POST /v2.1/servers/{server_id}/consoles": {"console": {}},
    "compute PUT /v2.1/servers/{server_id}": {"server": {"name": "x"}},
    "compute PUT /v2.1/os-volumes_boot/{server_id}": {"server": {"name": "x"}},
    "compute PUT /v2.1/os-security-groups/{id}": {"security_group": {"name": "x", "description": "y"}},
    "compute POST /v2.1/images/{image_id}/metadata": _METADATA,
    "compute PUT /v2.1/images/{image_id}/metadata": _METADATA,
    "compute PUT /v2.1/images/{image_id}/metadata/{key}": {"meta": {"key": "w"}},
    "compute POST /v2.1/servers/{server_id}/metadata": _METADATA,
    "compute PUT /v2.1/servers/{server_id}/metadata": _METADATA,
    "compute PUT /v2.1/servers/{server_id}/metadata/{key}": {"meta": {"key": "w"}},
    "compute PUT /v2.1/servers/{server_id}/tags": _TAGS,
    "compute PUT /v2.1/servers/{server_id}/tags/{tag}": None,
    "compute POST /v2.1/servers/{server_id}/os-volume_attachments": {
        "volumeAttachment": {"volumeId": "{volume}"}
    },
    "compute PUT /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}": {
        "volumeAttachment": {"volumeId": "{attached_volume}", "delete_on_termination": True}
    },
    "compute POST /v2.1/servers/{server_id}/os-interface": {
        "interfaceAttachment": {"port_id": "{loose_port}"}
    },
    **{
        f"compute POST /v2.1/{root}/{{server_id}}/action {name}": {name: value}
        for root in ("servers", "os-volumes_boot")
        for name, value in _ACTION_OF_SERVER.items()
    },
    "compute POST /v2.1/servers/{server_id}/migrations/{migration_id}/action force_complete": {
        "force_complete": None
    },
    **{
        f"compute PUT /v2.1/{gone}": {}
        for gone in (
            "os-agents/{id}",
            "os-certificates/{id}",
            "os-cells/{id}",
            "os-cloudpipe/{id}",
            "os-fping/{id}",
            "os-fixed-ips/{id}",
            "os-floating-ip-dns/{id}",
            "os-floating-ips-bulk/{id}",
            "os-security-group-default-rules/{id}",
            "os-floating-ip-dns/{domain}/entries/{id}",
        )
    },
    **{f"network PUT /v2.0/{many}/{{id}}": {one: change} for many, (one, change) in _NETWORK.items()},
    **{f"network PUT /v2.0/{many}/{{id}}/tags": _TAGS for many in _TAGGED},
    **{f"network POST /v2.0/{many}/{{id}}/tags": _TAGS for many in _TAGGED},
    **{f"network PUT /v2.0/{many}/{{id}}/tags/{{tag}}": None for many in _TAGGED},
    "network PUT /v2.0/subnetpools/{id}/add_prefixes": {"prefixes": ["10.250.0.0/16"]},
    "network PUT /v2.0/subnetpools/{id}/remove_prefixes": {"prefixes": ["10.101.0.0/16"]},
    "network PUT /v2.0/routers/{id}/add_router_interface": {"port_id": "{loose_port}"},
    "network PUT /v2.0/routers/{id}/remove_router_interface": {"subnet_id": "{subnet}"},
    "network PUT /v2.0/routers/{id}/add_extraroutes": {"router": {"routes": []}},
    "network PUT /v2.0/routers/{id}/remove_extraroutes": {"router": {"routes": []}},
    "network PUT /v2.0/trunks/{id}/add_subports": _SUBPORT,
    "network PUT /v2.0/trunks/{id}/remove_subports": {"sub_ports": [{"port_id": "{sub_port}"}]},
    "volume PUT /v3/volumes/{volume_id}": {"volume": {"name": "x"}},
    "volume POST /v3/volumes/{volume_id}/metadata": _METADATA,
    "volume PUT /v3/volumes/{volume_id}/metadata": _METADATA,
    "volume PUT /v3/volumes/{volume_id}/metadata/{key}": {"meta": {"key": "w"}},
    **{
        f"volume POST /v3/volumes/{{volume_id}}/action {name}": {name: value}
        for name, value in _ACTION_OF_VOLUME.items()
    },
    "volume PUT /v3/snapshots/{snapshot_id}": {"snapshot": {"name": "x"}},
    "volume POST /v3/snapshots/{snapshot_id}/metadata": _METADATA,
    "volume PUT /v3/snapshots/{snapshot_id}/metadata": _METADATA,
    "volume PUT /v3/snapshots/{snapshot_id}/metadata/{key}": {"meta": {"key": "w"}},
    "volume POST /v3/snapshots/{snapshot_id}/action os-update_snapshot_status": {
        "os-update_snapshot_status": {"status": "available"}
    },
    "volume PUT /v3/attachments/{attachment_id}": {"attachment": {"connector": {"host": "h"}}},
    "volume POST /v3/attachments/{attachment_id}/action os-complete": {"os-complete": None},
    "volume PUT /v3/backups/{backup_id}": {"backup": {"name": "x"}},
    "volume POST /v3/backups/{backup_id}/restore": {"restore": {"name": "x"}},
    "volume POST /v3/volume-transfers/{transfer_id}/accept": {"accept": {"auth_key": "x"}},
    "volume POST /v3/os-volume-transfer/{transfer_id}/accept": {"accept": {"auth_key": "x"}},
    "volume PUT /v3/groups/{group_id}": {"group": {"name": "x"}},
    "volume POST /v3/groups/{group_id}/action delete": {"delete": {"delete-volumes": True}},
}

_SERVER = {"name": "x", "flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none"}


def _server(**more: Any) -> Any:
    return {"server": _SERVER | more}


def _disk(kind: str, id: str) -> Any:
    device = {
        "source_type": kind,
        "uuid": id,
        "destination_type": "volume",
        "volume_size": 1,
        "boot_index": 1,
    }
    local = {"source_type": "image", "uuid": "{image}", "destination_type": "local", "boot_index": 0}
    return _server(block_device_mapping_v2=[local, device])


_LOOSE_RULE = {"direction": "ingress", "ethertype": "IPv4", "protocol": "udp"}

#: Lines that make things or join them: several bodies each, all valid.
CREATES: dict[str, tuple[Any, ...]] = {
    "compute POST /v2.1/servers": (
        _server(),
        _server(networks=[{"uuid": "{network}"}]),
        _server(networks=[{"port": "{loose_port}"}]),
        _server(networks="auto", security_groups=[{"name": "{security_group}"}]),
        _server(key_name="{keypair}"),
        _disk("volume", "{volume}"),
        _disk("snapshot", "{snapshot}"),
        _disk("image", "{image}"),
        {**_server(), "os:scheduler_hints": {"group": "{server_group}"}},
    ),
    "compute POST /v2.1/os-volumes_boot": (_server(networks=[{"uuid": "{network}"}]),),
    "compute POST /v2.1/os-keypairs": ({"keypair": {"name": "x"}},),
    "compute POST /v2.1/os-server-groups": ({"server_group": {"name": "x", "policy": "affinity"}},),
    "compute POST /v2.1/os-security-groups": ({"security_group": {"name": "x", "description": "y"}},),
    "compute POST /v2.1/os-security-group-rules": (
        {
            "security_group_rule": {
                "parent_group_id": "{security_group}",
                "ip_protocol": "tcp",
                "from_port": 1,
                "to_port": 2,
                "group_id": "{loose_group}",
            }
        },
    ),
    "compute POST /v2.1/os-floating-ips": ({"pool": "public"},),
    "compute POST /v2.1/os-volumes": (
        {"volume": {"size": 1}},
        {"volume": {"size": 1, "snapshot_id": "{snapshot}"}},
        {"volume": {"size": 1, "volume_type": "{type}"}},
    ),
    "compute POST /v2.1/os-snapshots": ({"snapshot": {"volume_id": "{volume}"}},),
    "compute POST /v2.1/servers/{server_id}/os-interface": (
        {"interfaceAttachment": {"net_id": "{network}"}},
    ),
    "compute POST /v2.1/servers/{server_id}/action addFloatingIp": (
        {"addFloatingIp": {"address": "{floating_address}"}},
    ),
    "compute POST /v2.1/servers/{server_id}/action removeFloatingIp": (
        {"removeFloatingIp": {"address": "{floating_address}"}},
    ),
    "compute POST /v2.1/servers/{server_id}/action addSecurityGroup": (
        {"addSecurityGroup": {"name": "{loose_group}"}},
    ),
    "compute POST /v2.1/servers/{server_id}/action removeFixedIp": (
        {"removeFixedIp": {"address": "{fixed_address}"}},
    ),
    "image POST /v2/images": ({"name": "x", "disk_format": "raw", "container_format": "bare"},),
    "network POST /v2.0/networks": ({"network": {"name": "x"}},),
    "network POST /v2.0/subnets": (
        {"subnet": {"network_id": "{network}", "ip_version": 4, "cidr": "10.200.0.0/24"}},
        {"subnet": {"network_id": "{network}", "ip_version": 4, "subnetpool_id": "{pool}", "prefixlen": 26}},
    ),
    "network POST /v2.0/subnetpools": ({"subnetpool": {"name": "x", "prefixes": ["10.251.0.0/16"]}},),
    "network POST /v2.0/ports": (
        {"port": {"network_id": "{network}"}},
        {"port": {"network_id": "{network}", "fixed_ips": [{"subnet_id": "{subnet}"}]}},
        {"port": {"network_id": "{network}", "security_groups": ["{loose_group}"]}},
        {
            "port": {
                "network_id": "{network}",
                "device_owner": "network:router_interface",
                "device_id": "{router}",
            }
        },
    ),
    "network POST /v2.0/security-groups": ({"security_group": {"name": "x"}},),
    "network POST /v2.0/security-group-rules": (
        {"security_group_rule": {**_LOOSE_RULE, "security_group_id": "{security_group}"}},
        {
            "security_group_rule": {
                **_LOOSE_RULE,
                "security_group_id": "{security_group}",
                "remote_group_id": "{loose_group}",
            }
        },
    ),
    "network POST /v2.0/routers": (
        {"router": {"name": "x"}},
        {"router": {"external_gateway_info": {"network_id": "{network}"}}},
    ),
    "network POST /v2.0/floatingips": (
        {"floatingip": {"floating_network_id": "{public}"}},
        {"floatingip": {"floating_network_id": "{network}"}},
        {"floatingip": {"floating_network_id": "{public}", "port_id": "{loose_port}"}},
        {"floatingip": {"floating_network_id": "{public}", "subnet_id": "{subnet}"}},
    ),
    "network POST /v2.0/rbac-policies": tuple(
        {
            "rbac_policy": {
                "object_type": kind,
                "object_id": id,
                "action": "access_as_shared",
                "target_tenant": "{service_project}",
            }
        }
        for kind, id in (
            ("network", "{network}"),
            ("security_group", "{loose_group}"),
            ("subnetpool", "{pool}"),
        )
    ),
    "network POST /v2.0/trunks": (
        {"trunk": {"port_id": "{loose_port}"}},
        {
            "trunk": {
                "port_id": "{fip_port}",
                "sub_ports": [{"port_id": "{loose_port}", "segmentation_type": "vlan", "segmentation_id": 9}],
            }
        },
    ),
    "network PUT /v2.0/ports/{id}": (
        {"port": {"security_groups": ["{loose_group}"]}},
        {"port": {"fixed_ips": [{"subnet_id": "{subnet}"}]}},
    ),
    "network PUT /v2.0/floatingips/{id}": ({"floatingip": {"port_id": "{loose_port}"}},),
    "network PUT /v2.0/routers/{id}": ({"router": {"external_gateway_info": {"network_id": "{network}"}}},),
    "network PUT /v2.0/routers/{id}/add_router_interface": ({"subnet_id": "{subnet}"},),
    "network PUT /v2.0/routers/{id}/remove_router_interface": ({"port_id": "{loose_port}"},),
    "volume POST /v3/volumes": (
        {"volume": {"size": 1}},
        {"volume": {"size": 1, "source_volid": "{volume}"}},
        {"volume": {"size": 1, "snapshot_id": "{snapshot}"}},
        {"volume": {"size": 1, "imageRef": "{image}"}},
        {"volume": {"size": 1, "volume_type": "{type}"}},
        {"volume": {"size": 1, "volume_type": "{type}", "group_id": "{group}"}},
    ),
    "volume POST /v3/snapshots": ({"snapshot": {"volume_id": "{volume}"}},),
    "volume POST /v3/attachments": (
        {"attachment": {"volume_uuid": "{volume}", "instance_uuid": "{volume}"}},
    ),
    "volume POST /v3/backups": ({"backup": {"volume_id": "{volume}"}},),
    "volume POST /v3/volume-transfers": ({"transfer": {"volume_id": "{volume}"}},),
    "volume POST /v3/os-volume-transfer": ({"transfer": {"volume_id": "{volume}"}},),
    "volume POST /v3/groups": (
        {"group": {"name": "x", "group_type": "{group_type}", "volume_types": ["{type}"]}},
    ),
    "volume POST /v3/groups/action create-from-src": (
        {"create-from-src": {"group_snapshot_id": "{group_snapshot}"}},
        {"create-from-src": {"source_group_id": "{group}"}},
    ),
    "volume POST /v3/group_snapshots": ({"group_snapshot": {"group_id": "{group}"}},),
    "identity POST /v3/credentials": ({"credential": {"type": "x", "blob": "b", "project_id": "{project}"}},),
    "identity POST /v3/OS-TRUST/trusts": (
        {
            "trust": {
                "trustor_user_id": "{user}",
                "trustee_user_id": "{reader}",
                "project_id": "{project}",
                "impersonation": True,
                "roles": [{"name": "member"}],
            }
        },
    ),
}

_PARAMETER = re.compile(r"\{(\w+)\}")


def lines() -> Iterator[tuple[Area, Route]]:
    """Every line of every table."""
    for area in AREAS:
        for route in area.routes:
            yield area, route


def key(area: Area, route: Route) -> str:
    """How a line is named in BODIES, and in failures."""
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
    """A body of BODIES with ids in it."""
    if isinstance(body, str):
        return _PARAMETER.sub(lambda match: fill(match[1]), body)
    if isinstance(body, dict):
        return {name: filled(value, fill) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, fill) for value in body]
    return body
