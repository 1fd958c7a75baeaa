"""Addresses on the web that users name, for the cloud to read from.

Who lets users choose what the cloud connects to lets them reach what only the cloud can reach. So an address is
looked at when it is named, and again, resolved, when it is connected to, and after every redirect.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

#: Where the web is; other services listen elsewhere.
PORTS = frozenset((80, 443))
#: Characters of an address at the most.
LENGTH = 2000
#: IPv6 addresses that stand for an IPv4 address behind a gateway.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Url(msgspec.Struct, frozen=True):
    """An address, taken apart."""

    scheme: str
    host: str
    port: int
    #: Path and query, as they are asked for.
    target: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def parse(text: str, *, private: bool = False) -> Url:
    """Take an address apart. Raises ValueError, saying what is wrong with it, for what must not be read.

    ``private``: addresses that are not public, and ports beside those of the web, may be read.
    """
    if len(text) > LENGTH or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("it is too long, or has characters that no address has")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https"):
        raise ValueError("it is neither http nor https")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it holds a user's name or password")
    host, port = parts.hostname, parts.port
    if not host or "%" in host:
        raise ValueError("it names no host")
    port = port or (443 if parts.scheme == "https" else 80)
    if not private and port not in PORTS:
        raise ValueError(f"port {port} is not one of the web's")
    if not private and not _may_be_public(host):
        raise ValueError("it is not a public address")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Url(parts.scheme, host, port, target)


def _may_be_public(host: str) -> bool:
    """False for an address that is not public. A name may be; what it stands for is looked at later."""
    try:
        return public(ipaddress.ip_address(host))
    except ValueError:
        # "127.1" and "0x7f000001" are addresses to the resolver, and no names to anybody.
        last = host.rstrip(".").rsplit(".", 1)[-1]
        return host.rstrip(".") != "localhost" and not last.isdigit() and not last.startswith("0x")


def public(address: _Address | str) -> bool:
    """True if everybody can reach the address: not this machine, nor a network of its owner's."""
    if isinstance(address, str):
        address = ipaddress.ip_address(address)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and not public(inner):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
