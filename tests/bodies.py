"""Valid bodies for the lines of the route tables, by "area METHOD path action"; {name} stands for the id of a thing.

The things are those of tests.tenants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

#: What only operators make and change; their things are those of tests.tenants.operate.
OPERATORS: dict[str, tuple[Any, ...]] = {
    "identity POST /v3/auth/tokens": (
        {
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"id": "{user}", "password": "wrong"}},
                },
                "scope": {"project": {"id": "{project}"}},
            }
        },
        {
            "auth": {
                "identity": {
                    "methods": ["application_credential"],
                    "application_credential": {"id": "{application_credential}", "secret": "wrong"},
                }
            }
        },
        {"auth": {"identity": {"methods": ["token"], "token": {"id": "wrong"}}, "scope": {"system": {"all": True}}}},
    ),
    "identity POST /v3/users": (
        {
            "user": {
                "name": "x", "domain_id": "default", "password": "p", "enabled": True, "email": "x@y",
                "default_project_id": "{project}", "options": {"ignore_password_expiry": True},
            }
        },
    ),
    "identity PATCH /v3/users/{user_id}": ({"user": {"name": "x", "description": "y", "options": {}}},),
    "identity POST /v3/OS-OAUTH1/consumers": ({"consumer": {"description": "x"}},),
    "identity PATCH /v3/OS-OAUTH1/consumers/{consumer_id}": ({"consumer": {"description": "x"}},),
    "identity POST /v3/groups": ({"group": {"name": "x", "domain_id": "default", "description": "y"}},),
    "identity PATCH /v3/groups/{group_id}": ({"group": {"name": "x"}},),
    "identity POST /v3/projects": (
        {
            "project": {
                "name": "x", "domain_id": "default", "parent_id": "default", "enabled": True, "is_domain": False,
                "tags": ["t"], "options": {},
            }
        },
    ),
    "identity PATCH /v3/projects/{project_id}": ({"project": {"name": "x", "tags": ["t"]}},),
    "identity PUT /v3/projects/{project_id}/tags": ({"tags": ["t"]},),
    "identity POST /v3/domains": ({"domain": {"name": "x", "enabled": True, "options": {}}},),
    "identity PATCH /v3/domains/{domain_id}": ({"domain": {"name": "x", "enabled": False}},),
    "identity PUT /v3/domains/{domain_id}/config": (
        {"config": {"identity": {"driver": "sql"}, "ldap": {"url": "ldap://x"}}},
    ),
    "identity PATCH /v3/domains/{domain_id}/config": ({"config": {"identity": {"driver": "sql"}}},),
    "identity PATCH /v3/domains/{domain_id}/config/{group}": ({"config": {"identity": {"driver": "sql"}}},),
    "identity PATCH /v3/domains/{domain_id}/config/{group}/{option}": ({"config": {"driver": "sql"}},),
    "identity POST /v3/roles": ({"role": {"name": "x", "domain_id": "default", "options": {"immutable": True}}},),
    "identity PATCH /v3/roles/{role_id}": ({"role": {"name": "x"}},),
    "identity POST /v3/regions": ({"region": {"id": "x", "parent_region_id": "RegionOne", "description": "y"}},),
    "identity PUT /v3/regions/{region_id}": ({"region": {"description": "y"}},),
    "identity PATCH /v3/regions/{region_id}": ({"region": {"parent_region_id": None}},),
    "identity POST /v3/services": ({"service": {"type": "x", "name": "y", "enabled": True}},),
    "identity PATCH /v3/services/{service_id}": ({"service": {"type": "x"}},),
    "identity POST /v3/endpoints": (
        {
            "endpoint": {
                "service_id": "{identity_service}", "interface": "public", "url": "http://x/$(project_id)s",
                "region_id": "RegionOne", "enabled": True,
            }
        },
    ),
    "identity PATCH /v3/endpoints/{endpoint_id}": ({"endpoint": {"url": "http://y"}},),
    "identity POST /v3/policies": ({"policy": {"blob": "{}", "type": "application/json"}},),
    "identity PATCH /v3/policies/{policy_id}": ({"policy": {"blob": "{}"}},),
    "identity POST /v3/OS-EP-FILTER/endpoint_groups": (
        {"endpoint_group": {"name": "x", "filters": {"interface": "public", "service_id": "{identity_service}"}}},
    ),
    "identity PATCH /v3/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}": (
        {"endpoint_group": {"filters": {"interface": "admin"}}},
    ),
    "identity POST /v3/OS-TRUST/trusts": (
        {
            "trust": {
                "trustor_user_id": "{user}", "trustee_user_id": "{reader}", "project_id": "{project}",
                "impersonation": True, "roles": [{"name": "member"}], "expires_at": "2030-01-01T00:00:00.000000Z",
                "remaining_uses": 3, "allow_redelegation": True, "redelegation_count": 2,
            }
        },
    ),
    "identity POST /v3/users/{user_id}/application_credentials": (
        {
            "application_credential": {
                "name": "x", "secret": "s", "expires_at": "2030-01-01T00:00:00.000000", "unrestricted": True,
                "roles": [{"name": "member"}],
                "access_rules": [{"service": "compute", "method": "GET", "path": "/v2.1/servers"}],
            }
        },
    ),
    "identity POST /v3/registered_limits": (
        {
            "registered_limits": [
                {"service_id": "{identity_service}", "resource_name": "x", "default_limit": 5, "region_id": "RegionOne"}
            ]
        },
    ),
    "identity PATCH /v3/registered_limits/{registered_limit_id}": ({"registered_limit": {"default_limit": 6}},),
    "identity POST /v3/limits": (
        {
            "limits": [
                {"service_id": "{identity_service}", "resource_name": "things", "resource_limit": 5, "project_id": "{project}"}
            ]
        },
    ),
    "identity PATCH /v3/limits/{limit_id}": ({"limit": {"resource_limit": 6}},),
    "image POST /v2/images": (
        {
            "name": "x", "disk_format": "raw", "container_format": "bare", "visibility": "private", "protected": True,
            "min_disk": 1, "min_ram": 2, "tags": ["t"], "os_hidden": False, "any": "thing",
        },
    ),
    "image PATCH /v2/images/{image_id}": (
        [{"op": "add", "path": "/any", "value": "x"}, {"op": "remove", "path": "/key"}],
        [{"op": "replace", "path": "/min_disk", "value": 1}, {"op": "replace", "path": "/visibility", "value": "shared"}],
    ),
    "image PUT /v2/images/{image_id}/members/{member_id}": ({"status": "accepted"},),
    "image POST /v2/images/{image_id}/import": (
        {"method": {"name": "web-download", "uri": "http://example.org/x"}, "stores": ["file"], "all_stores": False},
    ),
    "image POST /v2/tasks": ({"type": "import", "input": {"import_from": "http://x", "import_from_format": "raw", "image_properties": {"name": "x"}}},),
    "image POST /v2/metadefs/namespaces": (
        {
            "namespace": "x", "display_name": "y", "visibility": "public", "protected": False,
            "properties": {"p": {"title": "t", "type": "string"}},
            "objects": [{"name": "o", "properties": {"p": {"title": "t", "type": "integer", "minimum": 1}}}],
            "resource_type_associations": [{"name": "OS::Nova::Server", "prefix": "p_"}], "tags": [{"name": "g"}],
        },
    ),
    "image PUT /v2/metadefs/namespaces/{namespace}": ({"namespace": "{namespace}", "description": "d"},),
    "image POST /v2/metadefs/namespaces/{namespace}/objects": (
        {"name": "x", "required": ["p"], "properties": {"p": {"title": "t", "type": "string", "enum": ["a"]}}},
    ),
    "image PUT /v2/metadefs/namespaces/{namespace}/objects/{name}": ({"name": "x", "properties": {}},),
    "image POST /v2/metadefs/namespaces/{namespace}/properties": (
        {"name": "x", "title": "t", "type": "array", "items": {"type": "string"}, "operators": ["<or>"]},
    ),
    "image PUT /v2/metadefs/namespaces/{namespace}/properties/{name}": (
        {"name": "x", "title": "t", "type": "string", "maxLength": 5},
    ),
    "image POST /v2/metadefs/namespaces/{namespace}/tags": ({"tags": [{"name": "x"}]},),
    "image PUT /v2/metadefs/namespaces/{namespace}/tags/{name}": ({"name": "x"},),
    "image POST /v2/metadefs/namespaces/{namespace}/resource_types": (
        {"name": "OS::Cinder::Volume", "prefix": "p_", "properties_target": "image"},
    ),
    "compute POST /v2.1/servers": (
        {
            "server": {
                "name": "x", "flavorRef": "{flavor}", "imageRef": "{image}", "min_count": 1, "max_count": 1,
                "networks": [{"uuid": "{network}", "fixed_ip": "10.1.0.200", "tag": "t"}], "metadata": {"a": "b"},
                "user_data": "aGk=", "availability_zone": "nova", "config_drive": True, "description": "d",
                 "security_groups": [{"name": "default"}], "tags": ["t"], "trusted_image_certificates": None,
                "accessIPv4": "1.2.3.4", "accessIPv6": "::1", "OS-DCF:diskConfig": "AUTO", "return_reservation_id": True,
                "block_device_mapping_v2": [
                    {
                        "source_type": "image", "uuid": "{image}", "destination_type": "local", "boot_index": 0,
                        "delete_on_termination": True, "disk_bus": "virtio", "device_type": "disk", "tag": "u",
                    },
                    {
                        "source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
                        "volume_type": "{type}", "delete_on_termination": True, "device_name": "/dev/vdb",
                    },
                ],
            },
            "os:scheduler_hints": {"group": "{server_group}", "different_host": ["{server}"], "query": '["=", "a", 1]'},
        },
    ),
    "compute POST /v2.1/flavors": (
        {
            "flavor": {
                "name": "x", "id": "x", "ram": 1, "vcpus": 1, "disk": 1, "swap": 1, "rxtx_factor": 1.5,
                "OS-FLV-EXT-DATA:ephemeral": 1, "os-flavor-access:is_public": False, "description": "d",
            }
        },
    ),
    "compute PUT /v2.1/flavors/{flavor_id}": ({"flavor": {"description": "d"}},),
    "compute POST /v2.1/flavors/{flavor_id}/os-extra_specs": ({"extra_specs": {"hw:cpu_policy": "shared", "k": "v"}},),
    "compute PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": ({"key": "w"},),
    "compute POST /v2.1/flavors/{flavor_id}/action addTenantAccess": (
        {"addTenantAccess": {"tenant": "{service_project}"}},
    ),
    "compute POST /v2.1/flavors/{flavor_id}/action removeTenantAccess": (
        {"removeTenantAccess": {"tenant": "{project}"}},
    ),
    "compute POST /v2.1/os-keypairs": (
        {"keypair": {"name": "x", "type": "ssh", "public_key": "ssh-ed25519 AAAA x", "user_id": "{user}"}},
    ),
    "compute POST /v2.1/os-server-groups": (
        {"server_group": {"name": "x", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
    ),
    "compute PUT /v2.1/os-services/{service_id}": (
        {"host": "h1", "binary": "nova-compute", "disabled_reason": "r", "forced_down": False},
        {"status": "disabled", "disabled_reason": "r", "forced_down": False},
    ),
    "compute PUT /v2.1/os-hosts/{host_name}": ({"status": "disable"},),
    "compute POST /v2.1/os-aggregates": ({"aggregate": {"name": "x", "availability_zone": "z"}},),
    "compute PUT /v2.1/os-aggregates/{aggregate_id}": ({"aggregate": {"name": "x", "availability_zone": "y"}},),
    "compute POST /v2.1/os-aggregates/{aggregate_id}/action add_host": ({"add_host": {"host": "h2"}},),
    "compute POST /v2.1/os-aggregates/{aggregate_id}/action remove_host": ({"remove_host": {"host": "h1"}},),
    "compute POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata": (
        {"set_metadata": {"metadata": {"k": "v", "gone": None}}},
    ),
    "compute PUT /v2.1/os-quota-sets/{project}": ({"quota_set": {"cores": 7, "instances": -1, "force": True}},),
    "compute PUT /v2.1/os-quota-class-sets/{id}": ({"quota_class_set": {"cores": 7}},),
    "compute POST /v2.1/os-networks": ({"network": {"label": "x", "cidr": "10.0.0.0/24"}},),
    "compute POST /v2.1/os-tenant-networks": ({"network": {"label": "x", "cidr": "10.0.0.0/24"}},),
    "compute POST /v2.1/os-server-external-events": (
        {
            "events": [
                {"name": "network-changed", "server_uuid": "{server}", "tag": "{port}", "status": "completed"},
                {"name": "volume-extended", "server_uuid": "{server}", "tag": "{attached_volume}"},
            ]
        },
    ),
    "compute POST /v2.1/os-assisted-volume-snapshots": (
        {"snapshot": {"volume_id": "{attached_volume}", "create_info": {"snapshot_id": "{snapshot}", "type": "qcow2", "new_file": "f"}}},
    ),
    "compute POST /v2.1/os-baremetal-nodes": ({"node": {}},),
    "compute POST /v2.1/os-baremetal-nodes/{id}/action": ({"add_interface": {}},),
    "network POST /v2.0/networks": (
        {
            "network": {
                "name": "x", "description": "d", "admin_state_up": True, "shared": True, "router:external": False,
                "provider:network_type": "vlan", "provider:physical_network": "p", "provider:segmentation_id": 5,
                "port_security_enabled": True, "mtu": 1400, "availability_zone_hints": [], "dns_domain": "x.org.",
                "tags": ["t"], "is_default": False,
            }
        },
    ),
    "network POST /v2.0/subnets": (
        {
            "subnet": {
                "network_id": "{network}", "ip_version": 4, "cidr": "10.200.0.0/24", "gateway_ip": "10.200.0.1",
                "allocation_pools": [{"start": "10.200.0.10", "end": "10.200.0.20"}], "enable_dhcp": True,
                "dns_nameservers": ["1.1.1.1"], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.200.0.9"}],
                "name": "x", "description": "d", "tags": ["t"], "service_types": ["compute:nova"],
            }
        },
        {
            "subnet": {
                "network_id": "{network}", "ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "slaac",
                "ipv6_address_mode": "slaac",
            }
        },
    ),
    "network POST /v2.0/subnetpools": (
        {
            "subnetpool": {
                "name": "x", "prefixes": ["10.251.0.0/16"], "min_prefixlen": 20, "max_prefixlen": 28,
                "default_prefixlen": 24, "default_quota": 100, "shared": False, "is_default": False,
            }
        },
    ),
    "network POST /v2.0/ports": (
        {
            "port": {
                "network_id": "{network}", "name": "x", "mac_address": "fa:16:3e:00:00:01", "admin_state_up": True,
                "fixed_ips": [{"subnet_id": "{subnet}", "ip_address": "10.1.0.201"}], "device_id": "d",
                "device_owner": "o", "security_groups": ["{security_group}"], "dns_name": "x",
                "allowed_address_pairs": [{"ip_address": "10.1.0.0/24", "mac_address": "fa:16:3e:00:00:02"}],
                "extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}], "tags": ["t"],
                "binding:vnic_type": "normal", "binding:profile": {}, "binding:host_id": "h1",
                "port_security_enabled": True,
            }
        },
    ),
    "network PUT /v2.0/subnets/{id}": (
        {
            "subnet": {
                "gateway_ip": None, "dns_nameservers": ["1.1.1.1"], "enable_dhcp": False,
                "allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.250"}],
                "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.9"}],
            }
        },
    ),
    "network PUT /v2.0/ports/{id}": (
        {
            "port": {
                "fixed_ips": [{"ip_address": "10.1.0.202"}], "mac_address": "fa:16:3e:00:00:03", "device_id": "x",
                "allowed_address_pairs": [], "extra_dhcp_opts": [], "security_groups": [], "binding:host_id": "h1",
            }
        },
    ),
    "network POST /v2.0/security-groups": ({"security_group": {"name": "x", "stateful": True, "description": "d"}},),
    "network POST /v2.0/security-group-rules": (
        {
            "security_group_rule": {
                "security_group_id": "{security_group}", "direction": "egress", "ethertype": "IPv4", "protocol": "tcp",
                "port_range_min": 1, "port_range_max": 2, "remote_ip_prefix": "10.0.0.0/8", "description": "d",
            }
        },
    ),
    "network POST /v2.0/routers": (
        {
            "router": {
                "name": "x", "admin_state_up": True, "distributed": False, "ha": False, "availability_zone_hints": [],
                "external_gateway_info": {
                    "network_id": "{public}", "enable_snat": True, "external_fixed_ips": [{"ip_address": "10.0.0.9"}],
                },
            }
        },
    ),
    "network PUT /v2.0/routers/{id}": (
        {"router": {"routes": [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.9"}], "name": "x"}},
        {"router": {"external_gateway_info": {"network_id": "{public}", "external_fixed_ips": []}}},
    ),
    "network PUT /v2.0/routers/{id}/add_extraroutes": (
        {"router": {"routes": [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.9"}]}},
    ),
    "network POST /v2.0/floatingips": (
        {
            "floatingip": {
                "floating_network_id": "{public}", "port_id": "{loose_port}", "fixed_ip_address": "10.1.0.3",
                "floating_ip_address": "203.0.113.77", "description": "d", "dns_name": "x", "dns_domain": "y.org.",
            }
        },
    ),
    "network PUT /v2.0/quotas/{id}": ({"quota": {"network": 5, "port": -1}},),
    "placement POST /resource_providers": (
        {"name": "x", "uuid": "8f2a1a57-7bd5-4f1e-8f7a-0f4d1f7d3b11", "parent_provider_uuid": "{host}"},
    ),
    "placement PUT /resource_providers/{uuid}": ({"name": "x", "parent_provider_uuid": None},),
    "placement PUT /resource_providers/{uuid}/aggregates": (
        {"aggregates": ["8f2a1a57-7bd5-4f1e-8f7a-0f4d1f7d3b11"], "resource_provider_generation": 1},
    ),
    "placement POST /resource_providers/{uuid}/inventories": (
        {"resource_class": "{class}", "total": 5, "reserved": 1, "allocation_ratio": 1.5, "resource_provider_generation": 1},
    ),
    "placement PUT /resource_providers/{uuid}/inventories": (
        {
            "resource_provider_generation": 1,
            "inventories": {"VCPU": {"total": 5, "min_unit": 1, "max_unit": 4, "step_size": 1, "reserved": 0}},
        },
    ),
    "placement PUT /resource_providers/{uuid}/inventories/{resource_class}": (
        {"total": 5, "resource_provider_generation": 1},
    ),
    "placement POST /allocations": (
        {
            "{server}": {
                "allocations": {"{host}": {"resources": {"VCPU": 1}}}, "project_id": "{project}", "user_id": "{user}",
                "consumer_generation": 1, "consumer_type": "INSTANCE", "mappings": {"": ["{host}"]},
            }
        },
    ),
    "placement PUT /allocations/{consumer_uuid}": (
        {
            "allocations": {"{host}": {"resources": {"VCPU": 1}, "generation": 1}}, "project_id": "{project}",
            "user_id": "{user}", "consumer_generation": 1, "consumer_type": "INSTANCE", "mappings": {"": ["{host}"]},
        },
    ),
    "placement PUT /resource_providers/{uuid}/traits": (
        {"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 1},
    ),
    "placement POST /resource_classes": ({"name": "CUSTOM_X"},),
    "placement PUT /resource_classes/{name}": ({"name": "CUSTOM_X"},),
    "placement POST /reshaper": (
        {
            "inventories": {"{host}": {"inventories": {"VCPU": {"total": 5}}, "resource_provider_generation": 1}},
            "allocations": {
                "{server}": {
                    "allocations": {"{host}": {"resources": {"VCPU": 1}}}, "project_id": "{project}",
                    "user_id": "{user}", "consumer_generation": 1, "consumer_type": "INSTANCE", "mappings": {},
                }
            },
        },
    ),
    "volume POST /v3/volumes": (
        {
            "volume": {
                "size": 1, "name": "x", "description": "d", "metadata": {"k": "v"}, "availability_zone": "nova",
                "volume_type": "standard", "multiattach": False, "imageRef": None, "snapshot_id": None,
                "source_volid": None, "consistencygroup_id": None, "group_id": None, "backup_id": None,
            },
            "OS-SCH-HNT:scheduler_hints": {"same_host": ["{volume}"]},
        },
    ),
    "volume POST /v3/snapshots": (
        {"snapshot": {"volume_id": "{volume}", "name": "x", "description": "d", "metadata": {"k": "v"}, "force": True}},
    ),
    "volume POST /v3/attachments": (
        {"attachment": {"volume_uuid": "{volume}", "instance_uuid": "{server}", "mode": "rw", "connector": {"host": "h", "ip": "1.2.3.4"}}},
    ),
    "volume POST /v3/snapshots/{snapshot_id}/action os-reset_status": ({"os-reset_status": {"status": "error"}},),
    "volume POST /v3/types": (
        {
            "volume_type": {
                "name": "x", "description": "d", "os-volume-type-access:is_public": False, "extra_specs": {"k": "v"},
            }
        },
    ),
    "volume PUT /v3/types/{type_id}": ({"volume_type": {"name": "x", "description": "d", "is_public": True}},),
    "volume POST /v3/types/{type_id}/extra_specs": ({"extra_specs": {"k": "v"}},),
    "volume PUT /v3/types/{type_id}/extra_specs/{key}": ({"a:key": "w"},),
    "volume POST /v3/types/{type_id}/action addProjectAccess": ({"addProjectAccess": {"project": "{service_project}"}},),
    "volume POST /v3/types/{type_id}/action removeProjectAccess": ({"removeProjectAccess": {"project": "{project}"}},),
    "volume POST /v3/types/{type_id}/encryption": (
        {"encryption": {"provider": "luks", "cipher": "aes", "key_size": 256, "control_location": "front-end"}},
    ),
    "volume PUT /v3/types/{type_id}/encryption/{key}": ({"encryption": {"key_size": 128}},),
    "volume PUT /v3/default-types/{target_id}": ({"default_type": {"volume_type": "{type}"}},),
    "volume PUT /v3/os-quota-sets/{target_id}": ({"quota_set": {"volumes": 5, "gigabytes": -1, "gigabytes_standard": 7}},),
    "volume PUT /v3/os-quota-class-sets/{name}": ({"quota_class_set": {"volumes": 5}},),
    "volume PUT /v3/os-services/enable": ({"binary": "cinder-volume", "host": "sim@sim"},),
    "volume PUT /v3/os-services/disable": ({"binary": "cinder-volume", "host": "sim@sim"},),
    "volume PUT /v3/os-services/disable-log-reason": (
        {"binary": "cinder-volume", "host": "sim@sim", "disabled_reason": "r"},
    ),
    "volume PUT /v3/os-services/freeze": ({"host": "sim@sim"},),
    "volume PUT /v3/os-services/thaw": ({"host": "sim@sim"},),
    "volume POST /v3/groups/{group_id}/action reset_status": ({"reset_status": {"status": "error"}},),
    "volume POST /v3/group_snapshots/{group_snapshot_id}/action reset_status": ({"reset_status": {"status": "error"}},),
    "volume PUT /v3/groups/{group_id}": ({"group": {"name": "x", "add_volumes": "{volume}", "remove_volumes": "{grouped_volume}"}},),
    "volume POST /v3/group_types": ({"group_type": {"name": "x", "is_public": True, "group_specs": {"k": "v"}}},),
    "volume PUT /v3/group_types/{group_type_id}": ({"group_type": {"name": "x", "is_public": True}},),
    "volume POST /v3/group_types/{group_type_id}/group_specs": ({"group_specs": {"k": "v"}},),
    "volume PUT /v3/group_types/{group_type_id}/group_specs/{key}": ({"key": "w"},),
    "volume POST /v3/qos-specs": ({"qos_specs": {"name": "x", "consumer": "back-end", "k": "v"}},),
    "volume PUT /v3/qos-specs/{qos_id}": ({"qos_specs": {"k": "v"}},),
    "volume PUT /v3/qos-specs/{qos_id}/delete_keys": ({"keys": ["k"]},),
    "volume POST /v3/backups": (
        {"backup": {"volume_id": "{volume}", "name": "x", "container": "c", "incremental": False, "force": True}},
    ),
    "volume POST /v3/backups/import_record": ({"backup-record": {"backup_service": "s", "backup_url": "u"}},),
    "volume POST /v3/backups/{backup_id}/action os-reset_status": ({"os-reset_status": {"status": "error"}},),
    "volume POST /v3/os-volume-manage": ({"volume": {"host": "sim@sim#sim", "ref": {"source-name": "x"}}},),
    "volume POST /v3/manageable_volumes": ({"volume": {"host": "sim@sim#sim", "ref": {"source-name": "x"}}},),
    "volume POST /v3/os-snapshot-manage": ({"snapshot": {"volume_id": "{volume}", "ref": {"source-name": "x"}}},),
    "volume POST /v3/manageable_snapshots": ({"snapshot": {"volume_id": "{volume}", "ref": {"source-name": "x"}}},),
    "agent POST /v1/hello": (
        {
            "version": 1, "kind": "host", "name": "h1", "directory": "d", "session": "s",
            "facts": {
                "hypervisor": "sim", "hypervisor_version": 1, "host_ip": "1.2.3.4", "booted_at": 0.5, "cpu_info": {},
                "inventories": {"VCPU": {"total": 1, "reserved": 0, "ratio": 1.5}}, "traits": ["HW_CPU_X86_AVX"],
            },
        },
    ),
    "agent POST /v1/report": (
        {
            "session": "{session}", "sequence": 1000000,
            "claims": [{"id": "{claim}", "revision": 1, "seen": "present", "facts": {"power": "on"}, "error": "e"}],
            "orphans": [{"thing": "t", "kind": "disk", "facts": {"size": 1}}], "facts": {},
        },
    ),
    "agent POST /v1/fault": ({"claim": "{claim}", "step": "disk.ensure", "moment": "before"},),
    "cumulet POST /v1/faults": (
        {
            "step": "disk.*", "effect": "slow", "moment": "before", "server": "s", "host": "h1", "count": 2,
            "seconds": 1.5, "message": "m",
        },
    ),
    "cumulet POST /v1/tokens": ({"host": "h9", "renew": True},),
}  # fmt: skip
