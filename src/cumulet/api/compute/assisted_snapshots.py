"""Snapshots that a volume service asked compute to take, of volumes that are files which hosts share.

No volume here is such a file: a volume's back end takes its snapshots. So every request ends with what upstream
says of a volume that compute cannot do this for. See the compute API reference, "Assisted volume snapshots".
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from cumulet.api.asgi import Route
from cumulet.api.query import only
from cumulet.api.request import Request, Response
from cumulet.core.policy import SERVICE
from cumulet.errors import Invalid
from cumulet.wire.forms import Word


class Info(Struct, forbid_unknown_fields=True):
    snapshot_id: Word
    type: Literal["qcow2"]
    new_file: Word
    id: Word | None = None


class Snapshot(Struct, forbid_unknown_fields=True):
    volume_id: Word
    create_info: Info


class Create(Struct, forbid_unknown_fields=True):
    snapshot: Snapshot


class DeleteInfo(Struct):
    volume_id: str


def _refuse(volume: str) -> Invalid:
    return Invalid(
        f"Volume {volume[:255]} is no file that hosts share: its back end takes its snapshots, not the server that "
        "uses it."
    )


async def create(request: Request) -> Response:
    """POST /os-assisted-volume-snapshots"""
    raise _refuse((await request.struct(Create)).snapshot.volume_id)


async def delete(request: Request) -> Response:
    """DELETE /os-assisted-volume-snapshots/{id}"""
    if request.version >= (2, 75):
        only(request, "delete_info")
    try:
        info = msgspec.json.decode((request.arg("delete_info") or "").encode(), type=DeleteInfo)
    except msgspec.MsgspecError:
        raise Invalid("delete_info must be a JSON object with the volume_id.") from None
    raise _refuse(info.volume_id)


_RULE, _ALL = "os_compute_api:os-assisted-volume-snapshots", "/v2.1/os-assisted-volume-snapshots"

ROUTES = (
    Route("POST", _ALL, create, f"{_RULE}:create", SERVICE),
    Route("DELETE", f"{_ALL}/{{id}}", delete, f"{_RULE}:delete", SERVICE),
)
