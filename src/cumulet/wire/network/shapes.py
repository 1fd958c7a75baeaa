"""Attributes that most resources of the Network API have, and their form in an answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cumulet.wire.forms import instant
from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, REQUIRED, Attribute

NAME = Attribute(post=True, put=True, default="", check=checks.name())
FLAG = Attribute(post=True, put=True, default=False, convert=checks.boolean)
UUID = Attribute(post=True, default=REQUIRED, check=checks.uuid)

#: What nearly every resource has. ``tenant_id`` is the old name of ``project_id``.
STANDARD: Mapping[str, Attribute] = {
    "id": READ_ONLY,
    "project_id": Attribute(post=True, default=ABSENT, check=checks.text(255)),
    "description": Attribute(
        post=True, put=True, default="", convert=checks.text_or_empty, check=checks.text(255)
    ),
    "created_at": READ_ONLY,
    "updated_at": READ_ONLY,
    "revision_number": READ_ONLY,
    "tags": Attribute(post=True, default=ABSENT, check=checks.items(checks.text(255), 50)),
}


@lru_cache(maxsize=8192)
def _instant(second: int) -> str:
    return instant(second)


def standard(row: Mapping[str, Any]) -> dict[str, Any]:
    """The standard attributes of a row, in an answer's form."""
    return {
        "id": row["id"],
        "project_id": row["project_id"],
        "tenant_id": row["project_id"],
        "description": row["description"],
        "created_at": _instant(int(row["created_at"])),
        "updated_at": _instant(int(row["updated_at"])),
        "revision_number": row["revision_number"],
        **({"tags": row["tags"]} if "tags" in row else {}),
    }
