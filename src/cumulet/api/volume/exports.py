"""Waiting for a back end to export a volume, or to end an export, as clients expect of these calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cumulet.api.request import Request
from cumulet.core.volumes import clients
from cumulet.db.engine import Row
from cumulet.errors import NotFound, Unavailable

#: Seconds that a request waits. What was asked for goes on afterwards.
TIME = 30.0


async def exported(request: Request, volume_id: str, attachment_id: str) -> Row:
    """The attachment once it says how to reach the volume. Raises NotFound, Unavailable with the reason."""
    db = request.cloud.db
    until = asyncio.get_running_loop().time() + TIME
    with db.wake.listen(volume_id) as waiter:
        while True:
            found = await db.read(clients.connection, attachment_id)
            if found is None or found.attachment["passed"]:
                raise NotFound(f"Attachment {attachment_id} was deleted meanwhile.")
            if found.attachment["connection_info"] is not None:
                return found.attachment
            left = until - asyncio.get_running_loop().time()
            if found.error is not None or left <= 0:
                raise Unavailable(
                    f"Volume {volume_id} is not connected yet: {found.error or found.waits or 'it takes long'}. "
                    "Ask again, or delete the attachment."
                )
            await waiter.wait(left)


async def ended(request: Request, volume_id: str, attachment_ids: Sequence[str]) -> None:
    """Return once the attachments are gone. Raises Unavailable with the reason; they go on ending."""
    db = request.cloud.db
    until = asyncio.get_running_loop().time() + TIME
    with db.wake.listen(volume_id) as waiter:
        for id in attachment_ids:
            while True:
                found = await db.read(clients.connection, id)
                left = until - asyncio.get_running_loop().time()
                if found is None:
                    break
                if left <= 0:
                    raise Unavailable(
                        f"Volume {volume_id} is being detached, but that is not over yet: "
                        f"{found.waits or 'it takes long'}. It goes on by itself."
                    )
                await waiter.wait(left)
