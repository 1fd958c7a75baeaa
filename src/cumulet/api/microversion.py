"""Microversions: which version a request asks for, and what the answer says about it.

See the compute API guide, "Microversions", and the API-SIG guideline "Microversion Specification".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from cumulet.errors import CumuletError, Invalid

Version = tuple[int, int]
_VERSION = re.compile(r"([1-9]\d{0,8})\.(0|[1-9]\d{0,8})\Z", re.ASCII)


class NotAcceptable(CumuletError):
    """A version that is not served."""

    status = 406
    title = "Not Acceptable"

    def __init__(self, asked: str, versions: Versions) -> None:
        super().__init__(
            f"Version {asked} is not supported by the API. "
            f"Minimum is {text(versions.minimum)} and maximum is {text(versions.maximum)}."
        )
        self.versions = versions


class Versions(msgspec.Struct, frozen=True):
    """The range that an area serves."""

    service: str
    minimum: Version
    maximum: Version
    #: Header of the time before the common one, lower case; "" for none.
    legacy_header: str = ""

    def asked(self, headers: Mapping[str, str]) -> Version:
        """The version that the headers ask for; the minimum if they ask for none.

        Raises Invalid for a malformed version, NotAcceptable for one out of range.
        """
        wanted = ""
        for part in headers.get("openstack-api-version", "").split(","):
            words = part.split()
            if len(words) == 2 and words[0].lower() == self.service:
                wanted = words[1]
        if not wanted and self.legacy_header:
            wanted = headers.get(self.legacy_header, "").strip()
        if not wanted:
            return self.minimum
        if wanted.lower() == "latest":
            return self.maximum
        match = _VERSION.match(wanted)
        if not match:
            raise Invalid(
                f"API Version String {wanted[:64]} is of invalid format. Must be of format MajorNum.MinorNum."
            )
        version = (int(match[1]), int(match[2]))
        if not self.minimum <= version <= self.maximum:
            raise NotAcceptable(wanted, self)
        return version

    def headers(self, version: Version) -> list[tuple[str, str]]:
        """What every answer carries."""
        names = ["OpenStack-API-Version"]
        found = [("OpenStack-API-Version", f"{self.service} {text(version)}")]
        if self.legacy_header:
            name = "-".join(
                word.capitalize() if word != "api" else "API" for word in self.legacy_header.split("-")
            )
            name = name.replace("Openstack", "OpenStack")
            found.append((name, text(version)))
            names.append(name)
        found.append(("Vary", ", ".join(names)))
        return found


def text(version: Version) -> str:
    """``(2, 1)`` as ``2.1``."""
    return f"{version[0]}.{version[1]}"
