"""Ports. See Neutron's API reference, "Ports"."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from cumulet.errors import Invalid
from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import NAME, STANDARD, UUID, standard

#: Kinds of interface that a server can have here.
VNIC_TYPES = (
    "normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa",
    "accelerator-direct", "accelerator-direct-physical", "remote-managed",
)  # fmt: skip
#: Neutron's max_allowed_address_pair.
MAX_PAIRS = 10
#: DHCP options that may be blank.
_BLANK_OPTIONS = ("router", "classless-static-route")
#: Domain of ports whose network has none: Neutron's dns_domain.
DNS_DOMAIN = "openstacklocal."


def _pairs(value: Any) -> str | None:
    """Allowed address pairs; errors have types of their own. neutron_lib, validators/allowedaddresspairs.py."""
    if not isinstance(value, list):
        raise Invalid("Allowed address pairs must be a list.")
    if len(value) > MAX_PAIRS:
        raise Invalid(
            f"The number of allowed address pair exceeds the maximum {MAX_PAIRS}.",
            code="AllowedAddressPairExhausted",
        )
    for i, pair in enumerate(value):
        if not isinstance(pair, dict):
            return f"'{pair}' is not a dictionary"
        unknown = sorted(set(pair) - {"ip_address", "mac_address"})
        if "mac_address" in pair and checks.mac(pair["mac_address"]):
            raise Invalid(str(checks.mac(pair["mac_address"])))
        if "ip_address" not in pair:
            raise Invalid("AllowedAddressPair must contain ip_address", code="AllowedAddressPairsMissingIP")
        if unknown:
            raise Invalid(f"Unrecognized attribute(s) '{', '.join(unknown)}'")
        address = pair["ip_address"]
        wrong = checks.cidr(address) if "/" in str(address) else checks.ip(address)
        if wrong:
            raise Invalid(wrong)
        if ipaddress.ip_interface(address).ip.is_multicast:
            raise Invalid(f"'{address}' is a multicast address")
        if pair in value[:i]:
            raise Invalid(
                "Invalid input for operation: Request contains duplicate address pair: mac_address "
                f"{pair.get('mac_address')} ip_address {address}.",
                code="DuplicateAddressPairInRequest",
            )
    return None


def _options(value: Any) -> str | None:
    """DHCP options: a name, a value (null removes it) and an IP version."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > 100:
        return f"'{str(value)[:300]}' is not a list"
    for option in value:
        if not isinstance(option, dict) or not {"opt_name", "opt_value"} <= set(option) <= {
            "opt_name", "opt_value", "ip_version",
        }:  # fmt: skip
            raise checks.wrong(f"No valid key specs matched for: {option}")
        name, text = option["opt_name"], option["opt_value"]
        blank = isinstance(name, str) and name in _BLANK_OPTIONS
        check_value = checks.text(255) if blank else checks.line(255)
        if checks.line(64)(name) or (text is not None and check_value(text)):
            raise checks.wrong(f"No valid key specs matched for: {option}")
        if "ip_version" in option:
            option["ip_version"] = checks.integer(option["ip_version"])
            if option["ip_version"] not in (4, 6):
                raise checks.wrong(f"No valid key specs matched for: {option}")
    return None


ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "network_id": UUID,
    "admin_state_up": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "mac_address": Attribute(post=True, put=True, default=ABSENT, convert=checks.plain_mac, check=checks.mac),
    "fixed_ips": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.plain_fixed_ips, check=checks.fixed_ips
    ),
    "device_id": Attribute(
        post=True, put=True, default="", convert=checks.text_or_empty, check=checks.text(255)
    ),
    "device_owner": Attribute(
        post=True, put=True, default="", convert=checks.text_or_empty, check=checks.text(255)
    ),
    "status": READ_ONLY,
    "security_groups": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.list_or_empty, check=checks.uuid_list
    ),
    "port_security_enabled": Attribute(post=True, put=True, default=ABSENT, convert=checks.boolean),
    "allowed_address_pairs": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.list_or_empty, check=_pairs
    ),
    "extra_dhcp_opts": Attribute(post=True, put=True, default=None, check=_options),
    "binding:vnic_type": Attribute(post=True, put=True, default="normal", check=checks.among(VNIC_TYPES)),
    "binding:host_id": Attribute(post=True, put=True, default=ABSENT, check=checks.either(checks.text(255))),
    "binding:profile": Attribute(post=True, put=True, default=ABSENT, check=checks.either(checks.dictionary)),
    "binding:vif_type": READ_ONLY,
    "binding:vif_details": READ_ONLY,
    "dns_name": Attribute(post=True, put=True, default="", convert=checks.lower, check=checks.dns_name),
    "dns_assignment": READ_ONLY,
}

#: Attributes that only some may see.
PRIVATE = ("binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details")


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A port in an answer."""
    bound = row["binding_host"] != ""
    body = {
        **standard(row),
        "name": row["name"],
        "network_id": row["network_id"],
        "mac_address": row["mac_address"],
        "admin_state_up": row["admin_state_up"],
        "status": row["status"],
        "device_id": row["device_id"],
        "device_owner": row["device_owner"],
        "fixed_ips": row["fixed_ips"],
        "security_groups": row["security_groups"],
        "port_security_enabled": row["port_security_enabled"],
        "allowed_address_pairs": row["allowed_address_pairs"],
        "extra_dhcp_opts": row["extra_dhcp_opts"],
        "dns_name": row["dns_name"],
        "dns_assignment": [_assignment(row, fixed["ip_address"]) for fixed in row["fixed_ips"]],
        "binding:vnic_type": row["vnic_type"],
        "binding:host_id": row["binding_host"],
        "binding:profile": row["binding_profile"],
        "binding:vif_type": "ovs" if bound else "unbound",
        "binding:vif_details": {"port_filter": True} if bound else {},
    }
    if row["trunk"] is not None:
        body["trunk_details"] = row["trunk"]
    return body


def _assignment(row: Mapping[str, Any], address: str) -> dict[str, str]:
    """The name that an address of the port has in the network's DNS."""
    name: str = row["dns_name"] or "host-" + address.replace(".", "-").replace(":", "-")
    if name.endswith("."):
        hostname = name.split(".")[0]
        return {"ip_address": address, "hostname": hostname, "fqdn": name}
    domain = row["network_dns_domain"] or DNS_DOMAIN
    return {"ip_address": address, "hostname": name, "fqdn": f"{name}.{domain}"}
