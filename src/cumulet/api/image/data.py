"""The bytes of images: upload, download, and staging for an import.

See the image API reference, "Image data" and "Interoperable image import".
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

from cumulet.api.asgi import MethodNotAllowed, Route
from cumulet.api.image import permit, view
from cumulet.api.questions import Feeding
from cumulet.api.request import ClientGone, Request, Response, no_content
from cumulet.core.images import data, lifecycle
from cumulet.core.images.data import Bytes, Progress
from cumulet.errors import CumuletError, Invalid, TooLarge, Unavailable, Unsupported

#: Seconds in which a client must send something, and in which the image store must begin to read or to answer.
IDLE = 300.0
STORE_TIME = 60.0
#: What is read and thrown away of an upload that failed, so that a client that still sends hears why: bytes, seconds.
DRAIN = 256 << 20
DRAIN_TIME = 10.0

BINARY = "application/octet-stream"


class Gone(CumuletError):
    """The image was deleted while its bytes came."""

    status = 410
    title = "Gone"


class SlowClient(CumuletError):
    status = 408
    title = "Request Timeout"


class RangeNotSatisfiable(CumuletError):
    status = 416
    title = "Requested Range Not Satisfiable"


async def upload(request: Request) -> Response:
    """PUT /v2/images/{image_id}/file: answers once the image is active, or says why it is not."""
    return await _take(request, stage=False)


async def stage(request: Request) -> Response:
    """PUT /v2/images/{image_id}/stage: answers once the bytes are in the store, to be imported."""
    return await _take(request, stage=True)


async def _take(request: Request, *, stage: bool) -> Response:
    size = _announced(request)
    if request.headers.get("x-image-meta-store", view.STORE) != view.STORE:
        raise Invalid(f"There is no store {request.headers['x-image-meta-store']}; there is {view.STORE}.")
    most = request.cloud.config.images.size_limit_gb << 30
    if size is not None and size > most:
        raise TooLarge(f"The image has {size} bytes; the largest that is taken has {most}.")
    cloud, id = request.cloud, request.params["image_id"]
    upload = cloud.chance.uuid()
    check = permit.may(request, "modify_image" if stage else "upload_image")
    with cloud.db.wake.listen(id) as waiter:
        async with cloud.questions.upload(upload, _pieces(request, size)) as feeding:
            await cloud.db.write(data.begin, request.caller, id, upload, size, check, stage=stage)
            began = asyncio.get_running_loop().time()
            told = False
            while True:
                found = await cloud.db.read(data.progress, id, upload)
                if found.state == "done":
                    return no_content()
                if found.state != "waits":
                    break
                reason = None if told else _given_up(feeding, asyncio.get_running_loop().time() - began)
                if reason is not None:
                    await cloud.db.write(lifecycle.abandon, id, upload, reason)
                    told = True
                    continue
                await _until_something(feeding, waiter.wait(5.0))
        broken = feeding.task.exception() if feeding.task.done() and not feeding.task.cancelled() else None
        if isinstance(broken, ClientGone | SlowClient | Invalid):
            raise broken
        await _drain(request)
        raise _refusal(found)


def _announced(request: Request) -> int | None:
    """How many bytes the client says that it sends. Raises Unsupported, Invalid."""
    media_type = request.headers.get("content-type", "").split(";", 1)[0].strip()
    if media_type.lower() != BINARY:
        raise Unsupported(f"Invalid content type {media_type or 'none'}: {BINARY} was expected.")
    text = request.headers.get("x-openstack-image-size") or request.headers.get("content-length")
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise Invalid("Invalid or missing image size in request headers.")
    # An old way to say "unknown".
    return int(text) or None


async def _pieces(request: Request, size: int | None) -> AsyncIterator[bytes]:
    """The body in pieces. Raises ClientGone, SlowClient, Invalid if it is not as long as was announced."""
    taken = 0
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(IDLE):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise SlowClient(f"Nothing of the image came for {IDLE:.0f} seconds.") from None
        if piece is None:
            break
        taken += len(piece)
        if size is not None and taken > size:
            raise Invalid(f"The image is larger than the {size} bytes that were announced.")
        yield piece
    if size is not None and taken != size:
        raise Invalid(f"The image has {taken} bytes, but {size} were announced.")


def _given_up(feeding: Feeding, waited: float) -> str | None:
    """Why nobody sends or fetches the bytes any more."""
    if feeding.task.done() and not feeding.task.cancelled():
        broken = feeding.task.exception()
        if isinstance(broken, ClientGone):
            return "the client went away before its bytes were whole"
        if isinstance(broken, SlowClient | Invalid):
            return broken.message
        if broken is not None and not isinstance(broken, CumuletError):
            return "the upload failed"
    if not feeding.begun.is_set() and waited > STORE_TIME:
        return "the image store does not answer"
    return None


async def _until_something(feeding: Feeding, changed: object) -> None:
    """Until the image changed, the client is done or gone, or a while has passed."""
    waits = asyncio.ensure_future(changed)  # type: ignore[call-overload]
    try:
        await asyncio.wait(
            {waits, feeding.task} if not feeding.task.done() else {waits}, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        waits.cancel()


async def _drain(request: Request) -> None:
    left = DRAIN
    with contextlib.suppress(TimeoutError, ClientGone):
        async with asyncio.timeout(DRAIN_TIME):
            async for piece in request.stream():
                left -= len(piece)
                if left < 0:
                    return


def _refusal(found: Progress) -> CumuletError:
    if found.state == "gone":
        return Gone("The image was deleted during the upload; what had come of it was removed.")
    if found.cause == "unsafe":
        return Unsupported(_sentence(found.reason))
    if found.cause in ("large", "full"):
        return TooLarge(_sentence(found.reason))
    return Unavailable(f"The image could not be stored: {found.reason}.")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


async def download(request: Request) -> Response:
    """GET /v2/images/{image_id}/file, whole or a range of it; 204 while there are no bytes"""
    if request.method == "HEAD":
        raise MethodNotAllowed(["GET", "PUT"])
    found = await request.cloud.db.read(
        data.readable, request.caller, request.params["image_id"], permit.may(request, "download_image")
    )
    for store in (request.arg("prefer") or "").split(","):
        if store.strip() not in ("", view.STORE):
            raise Invalid(f"Store '{store.strip()}' is not configured.")
    if found.claim is None:
        return no_content()
    span = _span(request, found.size)
    offset, length = span or (0, found.size)
    headers = [("Content-Length", str(length))]
    if found.checksum:
        headers.append(("Content-MD5", found.checksum))
    if span is not None:
        headers.append(("Content-Range", f"bytes {offset}-{offset + length - 1}/{found.size}"))
    stream = await _read(request, found, offset, length)
    return Response(200 if span is None else 206, headers=headers, stream=stream, media_type=BINARY)


async def _read(request: Request, found: Bytes, offset: int, length: int) -> AsyncIterator[bytes]:
    """The bytes, from the store's agent, which has answered when this returns. Raises Unavailable."""
    assert found.claim is not None
    pieces = request.cloud.questions.ask(
        found.agent, "read", found.claim, {"offset": offset, "length": length}, STORE_TIME
    )
    return _forward(request, await anext(pieces, None), pieces)


async def _forward(request: Request, first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces as they come; none any more once the client is gone, who would not be missed otherwise."""
    gone = asyncio.ensure_future(request.gone())
    try:
        if first is not None:
            yield first
            async for piece in rest:
                if gone.done():
                    return
                yield piece
    finally:
        gone.cancel()
        close = getattr(rest, "aclose", None)
        if close is not None:
            await close()


_RANGE = re.compile(r"\s*bytes\s*=\s*(?:(\d+)\s*-\s*(\d*)|-\s*(\d+))\s*\Z", re.IGNORECASE)
_CONTENT_RANGE = re.compile(r"\s*bytes\s+(\d+)-(\d+)/(\d+|\*)\s*\Z", re.IGNORECASE)


def _span(request: Request, size: int) -> tuple[int, int] | None:
    """The (offset, length) that is asked for; None for all. Raises RangeNotSatisfiable, Invalid for several."""
    asked = request.headers.get("range")
    if asked is not None:
        if "," in asked:
            raise Invalid(
                "Requests with multiple ranges are not supported. You may make multiple single-range requests instead."
            )
        match = _RANGE.match(asked[:100])
        if match is None:
            raise RangeNotSatisfiable("Invalid Range header.")
        return _within(match[1], match[2], match[3], size)
    asked = request.headers.get("content-range")
    if asked is None:
        return None
    # Wrong in a request, but it has been taken for long.
    match = _CONTENT_RANGE.match(asked[:100])
    if match is None or int(match[2]) >= size or int(match[1]) > int(match[2]):
        raise RangeNotSatisfiable("Invalid Content-Range header.")
    return int(match[1]), int(match[2]) + 1 - int(match[1])


def _within(start: str | None, end: str | None, last: str | None, size: int) -> tuple[int, int]:
    if last is not None:
        length = min(int(last), size)
        if length == 0:
            raise RangeNotSatisfiable("Invalid Range header: it asks for nothing.")
        return size - length, length
    offset = int(start or 0)
    if offset >= size:
        raise RangeNotSatisfiable(
            f"Invalid start position in Range header. Start position MUST be in the inclusive range [0, {size - 1}]."
        )
    stop = min(int(end) + 1, size) if end else size
    if stop <= offset:
        raise RangeNotSatisfiable("Invalid Range header: it ends before it begins.")
    return offset, stop - offset


_FILE = "/v2/images/{image_id}/file"
ROUTES = (
    Route("GET", _FILE, download, "download_image", permit.DOWNLOAD),
    Route("PUT", _FILE, upload, "upload_image", permit.ADMIN_OR_MEMBER, streams=True),
)
