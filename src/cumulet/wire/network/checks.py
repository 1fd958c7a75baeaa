"""What the values of the Network API's attributes must look like.

A check takes a value and returns what is wrong with it, or None; a converter returns the value in its normal
form, or raises Invalid. Which values pass and the wording are Neutron's (neutron_lib.api.validators and
converters).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
import uuid as uuids
from collections.abc import Callable, Collection
from typing import Any

from cumulet.errors import Invalid

Check = Callable[[Any], str | None]

MAX_INT = 0x7FFFFFFF


def wrong(message: str, code: str = "InvalidInput") -> Invalid:
    """An error in the form that Neutron's InvalidInput has."""
    return Invalid(f"Invalid input for operation: {message}.", code=code)


# --- converters ---

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


def boolean(value: Any) -> bool:
    """True, false, or a word or number for it."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise wrong(f"'{value}' cannot be converted to boolean")


def boolean_or_none(value: Any) -> bool | None:
    return None if value is None else boolean(value)


def integer(value: Any) -> int:
    """A whole number, or text that is one."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        try:
            number = int(value)
        except ValueError:
            pass
        else:
            if -MAX_INT - 1 <= number <= MAX_INT:
                return number
    raise wrong(f"'{str(value)[:100]}' is not an integer")


def integer_or_none(value: Any) -> int | None:
    return None if value is None else integer(value)


def list_or_empty(value: Any) -> Any:
    """Null as an empty list."""
    return [] if value is None else value


def text_or_empty(value: Any) -> Any:
    """Null as an empty text."""
    return "" if value is None else value


def lower(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(f"Input value {value} must be string type")
    return value.lower()


def plain_mac(value: Any) -> Any:
    """A MAC address in lower case with colons, whatever form it came in."""
    if isinstance(value, str):
        digits = re.sub(r"[:.\-]", "", value).lower()
        if re.fullmatch(r"[0-9a-f]{12}", digits):
            return ":".join(digits[i : i + 2] for i in range(0, 12, 2))
    return value


def plain_ip(value: Any) -> Any:
    """An address in its normal form; what is none is left as it is, for the check to refuse."""
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else value
    except ValueError:
        return value


def plain_cidr(value: Any) -> Any:
    """A prefix in its normal form, host bits and all."""
    if value is None or not isinstance(value, str):
        raise wrong(f"{value} is not in a CIDR format")
    try:
        interface = ipaddress.ip_interface(value)
    except ValueError:
        raise wrong(f"{value[:100]} is not in a CIDR format") from None
    return value if interface.version == 4 else f"{interface.ip}/{interface.network.prefixlen}"


def plain_prefixes(value: Any) -> Any:
    """Prefixes in normal form; what is none is left as it is, for the check to refuse."""
    if not isinstance(value, list):
        return value
    return [plain_cidr(item) if cidr(item) is None else item for item in value]


def plain_pools(value: Any) -> Any:
    """Allocation pools with addresses in normal form."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(pool, dict) for pool in value):
        raise wrong("Invalid data format for allocation pools")
    return [{key: plain_ip(text) for key, text in pool.items()} for pool in value]


# --- checks ---


def either(check: Check) -> Check:
    """Null, or what ``check`` takes."""
    return lambda value: None if value is None else check(value)


def text(limit: int | None = None) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"'{value}' is not a valid string"
        if limit is not None and len(value) > limit:
            return f"'{value[:300]}' exceeds maximum length of {limit}"
        return None

    return check


def name(limit: int = 255) -> Check:
    """Printable; may be empty, and have spaces at its ends."""

    def check(value: Any) -> str | None:
        found = text(limit)(value)
        if found is None and not all(map(_printable, value)):
            return f"'{value}' is not a valid string"
        return found

    return check


def filled_name(limit: int = 255) -> Check:
    """A name that is not blank."""

    def check(value: Any) -> str | None:
        found = name(limit)(value)
        if found is None and not value.strip():
            return f"'{value}' Blank strings are not permitted"
        return found

    return check


def line(limit: int) -> Check:
    """One line that is not blank."""

    def check(value: Any) -> str | None:
        found = text(limit)(value)
        if found is None and not value.strip():
            return f"'{value}' Blank strings are not permitted"
        if found is None and len(value.splitlines()) > 1:
            return f"Multi-line string is not allowed: '{value}'"
        return found

    return check


def _printable(character: str) -> bool:
    category = unicodedata.category(character)
    return not category.startswith("C") and (not category.startswith("Z") or category == "Zs")


def among(values: Collection[Any]) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, dict | list) or value not in values:
            return f"'{value}' is not in [{', '.join(map(repr, values))}]"
        return None

    return check


def between(first: int, last: int) -> Check:
    def check(value: Any) -> str | None:
        if value < first:
            return f"'{value}' is too small - must be at least '{first}'"
        if value > last:
            return f"'{value}' is too large - must be no larger than '{last}'"
        return None

    return check


def not_negative(value: Any) -> str | None:
    return f"'{value}' should be non-negative" if value < 0 else None


def uuid(value: Any) -> str | None:
    try:
        uuids.UUID(value) if isinstance(value, str) else uuids.UUID("")
    except ValueError:
        return f"'{str(value)[:100]}' is not a valid UUID"
    return None


def items(check: Check, limit: int = 1000) -> Check:
    """A list of different things that each pass ``check``."""

    def checked(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"'{value}' is not a list"
        if len(value) > limit:
            return f"{len(value)} items in the list; at most {limit} are taken"
        for i, item in enumerate(value):
            if item in value[:i]:
                return f"Duplicate items in the list: '{item}'"
            found = check(item)
            if found:
                return found
        return None

    return checked


uuid_list = items(uuid)


def mac(value: Any) -> str | None:
    plain = plain_mac(value)
    if (
        not isinstance(plain, str)
        or not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", plain)
        or plain in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff")
    ):
        return f"'{str(value)[:100]}' is not a valid MAC address"
    return None


def ip(value: Any) -> str | None:
    try:
        if isinstance(value, str) and "%" not in value:
            ipaddress.ip_address(value)
            return None
    except ValueError:
        pass
    return f"'{str(value)[:100]}' is not a valid IP address"


def cidr(value: Any) -> str | None:
    """``10.0.0.0/8``: an address, possibly with host bits, and the length of its prefix."""
    if isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F:.]+/[0-9]{1,3}", value):
        try:
            ipaddress.ip_interface(value)
            return None
        except ValueError:
            pass
    return f"'{str(value)[:100]}' is not a valid IP subnet"


def route_cidr(value: Any) -> str | None:
    """A prefix without host bits that is not a loopback one."""
    if cidr(value) is not None:
        return f"'{str(value)[:100]}' is not a valid CIDR"
    interface = ipaddress.ip_interface(value)
    if interface.ip != interface.network.network_address:
        return f"'{value}' is not a valid CIDR"
    if interface.network.is_loopback:
        return f"'{value}' is not a routable CIDR"
    return None


def pools(value: Any) -> str | None:
    """Allocation pools: ``[{"start": …, "end": …}]``."""
    if not isinstance(value, list) or len(value) > 100:
        return f"Invalid data format for IP pool: '{str(value)[:300]}'"
    for pool in value:
        found = keys(pool, {"start", "end"}) or ip(pool["start"]) or ip(pool["end"])
        if found:
            return found
    return None


def keys(value: Any, expected: set[str]) -> str | None:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        return f"Invalid input. '{value}' must be a dictionary with keys: {sorted(expected)}"
    if set(value) != expected:
        return (
            "Validation of dictionary's keys failed. "
            f"Expected keys: {sorted(expected)} Provided keys: {sorted(map(str, value))}"
        )
    return None


def fixed_ips(value: Any) -> str | None:
    """``[{"subnet_id": …, "ip_address": …}]``, either may be missing. No address twice."""
    if not isinstance(value, list) or len(value) > 100:
        return f"Invalid data format for fixed IP: '{str(value)[:300]}'"
    seen: set[str] = set()
    for fixed in value:
        if not isinstance(fixed, dict):
            return f"Invalid data format for fixed IP: '{fixed}'"
        if "ip_address" in fixed:
            found = ip(fixed["ip_address"])
            if found:
                return found
            if plain_ip(fixed["ip_address"]) in seen:
                return f"Duplicate IP address '{fixed['ip_address']}'"
            seen.add(plain_ip(fixed["ip_address"]))
        if "subnet_id" in fixed and uuid(fixed["subnet_id"]):
            return uuid(fixed["subnet_id"])
    return None


def plain_fixed_ips(value: Any) -> Any:
    """Fixed IPs with addresses in normal form; an address that is null is one that was not asked for."""
    if value is None:
        return []
    if not isinstance(value, list):
        return value
    return [
        {k: plain_ip(v) if k == "ip_address" else v for k, v in fixed.items() if v is not None}
        if isinstance(fixed, dict)
        else fixed
        for fixed in value
    ]


def nameservers(value: Any) -> str | None:
    if not isinstance(value, list):
        return f"Invalid data format for nameserver: '{value}'"
    for i, host in enumerate(value):
        found = ip(host)
        if found:
            return f"'{host}' is not a valid nameserver. {found}"
        if host in value[:i]:
            return f"Duplicate nameserver '{host}'"
    return None


def host_routes(value: Any) -> str | None:
    """``[{"destination": …, "nexthop": …}]``."""
    if not isinstance(value, list) or len(value) > 1000:
        return f"Invalid data format for hostroute: '{str(value)[:300]}'"
    for i, route in enumerate(value):
        found = (
            keys(route, {"destination", "nexthop"})
            or route_cidr(route["destination"])
            or ip(route["nexthop"])
        )
        if found:
            return found
        if route in value[:i]:
            return f"Duplicate hostroute '{route}'"
    return None


def plain_routes(value: Any) -> Any:
    """Routes with addresses and prefixes in normal form."""
    if value is None:
        return []
    if not isinstance(value, list):
        return value
    return [_plain_route(route) for route in value]


def _plain_route(route: Any) -> Any:
    if not isinstance(route, dict) or cidr(route.get("destination")) is not None:
        return route
    destination = plain_cidr(route["destination"])
    return {**route, "destination": destination, "nexthop": plain_ip(route.get("nexthop"))}


def dictionary(value: Any) -> str | None:
    return None if isinstance(value, dict) else f"'{value}' is not a dictionary"


_LABEL = re.compile(r"(?!-)[a-zA-Z0-9-]{1,63}(?<!-)\Z")


def dns_name(value: Any) -> str | None:
    """A host name, or a full one that ends in a dot; may be empty."""
    found = text(255)(value)
    if found is not None or value == "":
        return found
    labels = value.removesuffix(".").split(".")
    if value.endswith(".") and len(labels) < 2:
        return f"'{value}' not a valid PQDN or FQDN. Reason: FQDN needs at least two labels"
    for label in labels:
        if not _LABEL.match(label):
            return f"'{value}' not a valid PQDN or FQDN. Reason: Encountered an invalid label '{label}'"
    return None


def dns_domain(value: Any) -> str | None:
    """A domain that ends in a dot; may be empty."""
    found = dns_name(value)
    if found is None and value and not value.endswith("."):
        return f"'{value}' is not a FQDN"
    return found
