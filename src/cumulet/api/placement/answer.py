"""What Placement's handlers share: media types, caching headers, addresses."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import formatdate
from typing import Any, TypeVar

from cumulet.api.request import Request, Response
from cumulet.errors import CumuletError, Invalid, Unsupported
from cumulet.wire.body import decode

T = TypeVar("T")
PREFIX = "/placement"
_ACCEPTED = frozenset({"*/*", "application/*", "application/json"})


async def struct(request: Request, shape: type[T]) -> T:
    """The body as ``shape``. Raises Unsupported for another media type, Invalid."""
    return decode(await raw(request), shape, request.version)


async def raw(request: Request) -> Any:
    """The body as JSON. Raises Unsupported for another media type, Invalid."""
    await check_content(request)
    return await request.raw()


async def check_content(request: Request) -> None:
    """Raise Unsupported unless the body is JSON by its media type, Invalid if it has none."""
    kind = request.headers.get("content-type", "")
    if not kind and await request.body():
        raise Invalid("content-type header required when content-length > 0")
    if kind.split(";")[0].strip().lower() != "application/json":
        raise Unsupported(f"The media type {kind or None} is not supported, use application/json")


def check_accept(request: Request) -> None:
    """Raise an error with status 406 if the client takes no JSON."""
    accept = request.headers.get("accept", "")
    kinds = [part.split(";") for part in accept.split(",") if part.strip()]
    wanted = [kind[0].strip().lower() for kind in kinds if not _refused(kind[1:])]
    if kinds and not _ACCEPTED.intersection(wanted):
        raise CumuletError("Only application/json is provided", status=406)


def _refused(parameters: Iterable[str]) -> bool:
    """True for a quality of nothing."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q" and value.strip().strip("0.") == "":
            return True
    return False


def fresh(
    request: Request, body: Any, times: Iterable[float] = (), *, status: int = 200, location: str = ""
) -> Response:
    """An answer that is not to be cached, with the time of its newest part (without any: now), since 1.15."""
    response = Response(status, body)
    if location:
        response.headers.append(("Location", request.url(PREFIX + location)))
    if request.version >= (1, 15):
        newest = max(times, default=request.cloud.chance.now())
        response.headers.append(("Last-Modified", formatdate(newest, usegmt=True)))
        response.headers.append(("Cache-Control", "no-cache"))
    return response


def made(request: Request, status: int, location: str) -> Response:
    """An answer without a body, that says where the thing is."""
    return Response(status, None, [("Location", request.url(PREFIX + location))])
