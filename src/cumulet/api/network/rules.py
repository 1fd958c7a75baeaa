"""The rules of the Network API with Neutron's defaults (neutron/conf/policies)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ADMIN = "rule:admin_only"
SERVICE = "rule:service_api"
OWN_READER = "role:reader and project_id:%(project_id)s"
OWN_MEMBER = "role:member and project_id:%(project_id)s"
OWN_MANAGER = "role:manager and project_id:%(project_id)s"
NET_READER = "role:reader and rule:network_owner"
NET_MEMBER = "role:member and rule:network_owner"
NET_MANAGER = "role:manager and rule:network_owner"


def either(*checks: str) -> str:
    """Any of the checks."""
    return " or ".join(f"({check})" for check in checks)


READER = either(ADMIN, OWN_READER)
MEMBER = either(ADMIN, OWN_MEMBER)
MANAGER = either(ADMIN, OWN_MANAGER)
#: Who owns the network that a port or subnet is on.
ON_NETWORK = either(ADMIN, SERVICE, NET_MEMBER)
ON_SHARED = either(ADMIN, SERVICE, NET_MEMBER, "rule:shared")
NOT_WILDCARD = either(ADMIN, "not field:rbac_policy:target_project=*")


def _each(verbs: Iterable[str], noun: str, names: Iterable[str], check: str) -> dict[str, str]:
    return {f"{verb}_{noun}:{name}": check for verb in verbs for name in names}


_PROVIDER = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")
_WRITE = ("create", "update")

#: What is asked about single attributes, and what other rules refer to. Whole resources' rules are in the
#: tables of routes.
RULES: Mapping[str, str] = {
    "admin_only": "rule:context_is_admin",
    "network_owner": "project_id:%(network:project_id)s",
    "sg_owner": "project_id:%(security_group:project_id)s",
    "ext_parent_owner": "project_id:%(ext_parent:project_id)s",
    "shared": "field:networks:shared=True",
    "external": "field:networks:router:external=True",
    "external_network": "field:subnets:router:external=True",
    "network_device": "field:port:device_owner=~^network:",
    "shared_subnetpools": "field:subnetpools:shared=True",
    "shared_security_group": "field:security_groups:shared=True",
    **_each(_WRITE, "network", ("shared", "router:external", "is_default", *_PROVIDER), ADMIN),
    **_each(_WRITE, "network", ("port_security_enabled",), MEMBER),
    **_each(("get",), "network", _PROVIDER, ADMIN),
    **_each(("create",), "subnetpool", ("shared", "is_default"), ADMIN),
    **_each(("update",), "subnetpool", ("is_default",), ADMIN),
    **_each(_WRITE, "port", ("device_id", "binding:vnic_type"), either(ADMIN, OWN_MEMBER, SERVICE)),
    **_each(_WRITE, "port", ("device_owner",), either("not rule:network_device", ADMIN, SERVICE, NET_MEMBER)),
    "create_port:mac_address": ON_NETWORK,
    "update_port:mac_address": either(ADMIN, SERVICE, NET_MANAGER),
    "create_port:fixed_ips": ON_SHARED,
    "update_port:fixed_ips": ON_NETWORK,
    **_each(_WRITE, "port", ("fixed_ips:subnet_id",), ON_SHARED),
    **_each(
        _WRITE,
        "port",
        (
            "fixed_ips:ip_address", "port_security_enabled", "allowed_address_pairs",
            "allowed_address_pairs:mac_address", "allowed_address_pairs:ip_address",
        ),
        ON_NETWORK,
    ),
    **_each(_WRITE, "port", ("binding:host_id",), either(ADMIN, SERVICE)),
    **_each(_WRITE, "port", ("binding:profile",), SERVICE),
    **_each(
        ("get",),
        "port",
        ("binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details"),
        either(ADMIN, SERVICE),
    ),
    **_each(("get", *_WRITE), "router", ("distributed", "ha"), ADMIN),
    **_each(_WRITE, "router", ("external_gateway_info", "external_gateway_info:network_id"), MEMBER),
    **_each(
        _WRITE,
        "router",
        ("external_gateway_info:enable_snat", "external_gateway_info:external_fixed_ips"),
        ADMIN,
    ),
    "create_floatingip:floating_ip_address": MANAGER,
    **_each(_WRITE, "rbac_policy", ("target_project",), NOT_WILDCARD),
}  # fmt: skip


def tags(noun: str, read: str, write: str) -> dict[str, str]:
    """The rules for the tags of one kind of resource."""
    return {
        f"get_{noun}:tags": read,
        f"create_{noun}:tags": write,
        f"update_{noun}:tags": write,
        f"delete_{noun}:tags": write,
    }
