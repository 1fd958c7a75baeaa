"""From an ASGI call to a handler and back.

Each area's file ends in a table of routes. This module finds the route, checks version, token and policy in
this order, calls the handler, and turns errors into the area's dialect. Whatever happens, the answer has a
request id, and a 500 carries nothing but that.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from cumulet.api import faults
from cumulet.api.cloud import Cloud
from cumulet.api.microversion import Version, Versions
from cumulet.api.request import BODY_LIMIT, ClientGone, Request, Response
from cumulet.db.engine import REQUEST_ID, Duplicate, StillHeld
from cumulet.errors import Conflict, CumuletError, Forbidden, Invalid, NotFound, Unauthorized

log = structlog.get_logger()

Handler = Callable[[Request], Awaitable[Response]]
Scope = Mapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
FIRST: Version = (0, 0)
LAST: Version = (9999, 0)
#: What an area's target may hold for a thing that is a stranger's: the NotFound to raise instead of Forbidden.
UNSEEN = "unseen"


class MethodNotAllowed(CumuletError):
    status = 405
    title = "Method Not Allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__("The method is not allowed for this resource.")
        self.allowed = allowed


class Route(msgspec.Struct, frozen=True):
    """One line of an area's table."""

    method: str
    path: str
    handler: Handler
    #: Name of the upstream rule; "" for routes that need no token.
    rule: str = ""
    #: The upstream default of the rule.
    check: str = ""
    since: Version = FIRST
    until: Version = LAST
    #: For POST …/action: the key of the body that this line answers.
    action: str = ""
    #: True where the handler reads the body itself, in pieces.
    streams: bool = False
    #: True where the rule asks about the thing in question, so that the core function asks it.
    late: bool = False


class Area(msgspec.Struct, frozen=True):
    """One service's API below its prefix."""

    name: str
    prefix: str
    dialect: faults.Dialect
    routes: tuple[Route, ...]
    versions: Versions | None = None
    #: "/v3" if clients may put their project's id behind it: /v3/{project_id}/volumes.
    project_root: str = ""
    #: "/v2" if what is below ``project_root`` is served there too, always at the least version.
    old_root: str = ""
    #: Checks that routes' checks refer to.
    rules: Mapping[str, str] = {}
    #: How the caller is found; None: by the token in X-Auth-Token.
    authenticate: Callable[[Request], Awaitable[Any]] | None = None
    #: True if a slash at the end, but for the root's, names another thing, one with an empty id, which is never there.
    exact: bool = False
    #: What the rules' "%(…)s" stand for; None: the caller's own ids and the parameters of the path.
    target: Callable[[Request], Awaitable[Mapping[str, Any]]] | None = None


class _Node:
    """One segment of the paths of an area."""

    __slots__ = ("children", "methods", "wild")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.wild: _Node | None = None
        #: Per method the lines, with the names of their path's parameters.
        self.methods: dict[str, list[tuple[Route, tuple[str, ...]]]] = {}


@functools.lru_cache(maxsize=64)
def _tree(routes: tuple[Route, ...]) -> _Node:
    """An area's table never changes: applications of one process, of which tests make thousands, share its tree."""
    root = _Node()
    for route in routes:
        node = root
        names = []
        for segment in route.path.strip("/").split("/") if route.path.strip("/") else []:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.wild = node.wild or _Node()
                node = node.wild
            else:
                node = node.children.setdefault(segment, _Node())
        lines = node.methods.setdefault(route.method, [])
        for other, _ in lines:
            if other.action == route.action and other.since <= route.until and route.since <= other.until:
                raise ValueError(f"two routes for {route.method} {route.path} {route.action} at one version")
        lines.append((route, tuple(names)))
    return root


def _find(node: _Node, segments: Sequence[str]) -> tuple[_Node, tuple[str, ...]] | None:
    """The node of a path and what its parameters were; a literal segment goes before a parameter."""
    if not segments:
        return (node, ()) if node.methods else None
    child = node.children.get(segments[0])
    if child is not None:
        found = _find(child, segments[1:])
        if found is not None:
            return found
    if node.wild is not None and segments[0]:
        found = _find(node.wild, segments[1:])
        if found is not None:
            return found[0], (segments[0], *found[1])
    return None


_PROJECT = re.compile(r"[0-9a-f]{32}\Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_PRINTABLE = "".join(map(chr, range(32, 127)))
_FORWARDED = re.compile(r"[A-Za-z0-9.\-:\[\]]{1,255}\Z")


class Application:
    """The ASGI application: all areas of one process."""

    def __init__(self, cloud: Cloud, areas: Sequence[Area]) -> None:
        self.cloud = cloud
        self.areas = {area.prefix.strip("/"): area for area in areas}
        self.trees = {area.prefix.strip("/"): _tree(area.routes) for area in areas}

    async def __call__(self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        request = _request(self.cloud, scope, receive)
        area = self.areas.get(request.path.split("/", 2)[1]) or self.areas[""]
        try:
            response = await self._answer(area, request)
        except ClientGone:
            return
        response.headers.append(("x-openstack-request-id", request.id))
        if area.name == "compute":
            response.headers.append(("x-compute-request-id", request.id))
        await _send(response, request, send)
        seconds = time.perf_counter() - started
        self.cloud.metrics.request(
            area.name, request.route.path if request.route else "", request.method, response.status, seconds
        )
        ends = response.status == 503 and self.cloud.closing
        if (response.status >= 500 and not ends) or self.cloud.log_requests:
            log.info(
                "request", method=request.method, path=request.path, status=response.status,
                ms=round(seconds * 1000, 1), request_id=request.id, project=request.caller.project_id,
            )  # fmt: skip

    async def _answer(self, area: Area, request: Request) -> Response:
        try:
            # What an agent reports belongs to the request that it works for, not to its own. A user's request has a
            # task of its own, so nothing is to be taken back.
            REQUEST_ID.set(request.id if area.authenticate is None else None)
            if area.authenticate is None:
                structlog.contextvars.bind_contextvars(request_id=request.id)
            response = await self._raced(area, request)
            # What cannot be encoded is a failure that must be answered, too.
            response.body = response.content()
        except CumuletError as error:
            status, body = faults.render(area.name, area.dialect, error, request.id, request.version)
            response = Response(status, body)
            if isinstance(error, Unauthorized):
                response.headers.append(("WWW-Authenticate", f'Keystone uri="{request.base}/identity"'))
            if isinstance(error, MethodNotAllowed):
                response.headers.append(("Allow", ", ".join(error.allowed)))
            wait = getattr(error, "retry_after", 1 if status == 503 else None)
            if wait is not None:
                response.headers.append(("Retry-After", str(wait)))
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("request failed", method=request.method, path=request.path, request_id=request.id)
            failed = CumuletError(
                f"The server failed. The request's id, for the operator's log: {request.id}."
            )
            response = Response(
                500, faults.render(area.name, area.dialect, failed, request.id, request.version)[1]
            )
        if area.versions is not None and not any(name == "Vary" for name, _ in response.headers):
            response.headers += area.versions.headers(
                request.version if request.version != (1, 0) else area.versions.minimum
            )
        return response

    async def _raced(self, area: Area, request: Request) -> Response:
        """``_handle``; what an index or a foreign key refused because of another transaction is a conflict.

        What can be known beforehand is checked by the core functions, with an error of its own.
        """
        try:
            return await self._handle(area, request)
        except (Duplicate, StillHeld) as error:
            if area.authenticate is not None:
                raise  # an agent takes a conflict for the end of its session
            log.exception("refused by the database", method=request.method, path=request.path)
            raise Conflict(
                "Something that the request is about was changed by another request at the same time; "
                "look again, and repeat it if it still makes sense."
            ) from error

    async def _handle(self, area: Area, request: Request) -> Response:
        if "\0" in request.path:
            raise NotFound("The resource could not be found.")
        inside = request.path[len(area.prefix) :] if area.prefix.strip("/") else request.path
        if area.versions is not None:
            request.version = area.versions.minimum
            if not self._old(area, inside):
                request.version = area.versions.asked(request.headers)
        segments = self._segments(area, inside)
        found = _find(self.trees[area.prefix.strip("/")], segments)
        deep = len(segments) > (1 if area.project_root else 0)
        if found is None or (area.exact and deep and inside.endswith("/")):
            await self._authenticate_unknown(area, request)
            raise NotFound("The resource could not be found.")
        node, values = found
        lines = node.methods.get(request.method)
        if lines is None and request.method == "HEAD":
            lines = node.methods.get("GET")
        if lines is None:
            raise MethodNotAllowed(sorted(node.methods))
        if lines[0][0].rule:
            # Before anything is read from the body: who has no token learns nothing.
            request.caller = await self._caller(area, request)
        route, names = await self._line(lines, request)
        request.route = route
        request.params = dict(zip(names, values, strict=True))
        if route.rule and not route.late:
            await self._check(area, route, request)
        if not route.streams and request.method in ("POST", "PUT", "PATCH"):
            await request.body(BODY_LIMIT)
        return await route.handler(request)

    @staticmethod
    def _segments(area: Area, inside: str) -> list[str]:
        segments = inside.strip("/").split("/") if inside.strip("/") else []
        if Application._old(area, inside):
            segments[0] = area.project_root.strip("/")
        if (
            area.project_root
            and len(segments) > 1
            and segments[0] == area.project_root.strip("/")
            and _PROJECT.match(segments[1])
        ):
            del segments[1]
        return segments

    @staticmethod
    def _old(area: Area, inside: str) -> bool:
        return (
            area.old_root != ""
            and inside.startswith(area.old_root + "/")
            and inside.strip("/").count("/") > 0
        )

    async def _line(
        self, lines: Sequence[tuple[Route, tuple[str, ...]]], request: Request
    ) -> tuple[Route, tuple[str, ...]]:
        if lines[0][0].action:
            body = await request.document()
            named = [line for line in lines if line[0].action in body]
            if not named or len(body) != 1:
                raise _no_action(body)
            request.action = body[named[0][0].action]
            lines = named
        for route, names in lines:
            if route.since <= request.version <= route.until:
                return route, names
        raise NotFound("The resource could not be found.")

    async def _caller(self, area: Area, request: Request) -> Any:
        if area.authenticate is not None:
            return await area.authenticate(request)
        token = request.headers.get("x-auth-token")
        if not token:
            raise Unauthorized("The request you have made requires authentication.")
        return self.cloud.policy.caller(await self.cloud.caller(token, request))

    async def _authenticate_unknown(self, area: Area, request: Request) -> None:
        """A path that nobody serves: who has no valid token learns only that."""
        if area.rules or any(route.rule for route in area.routes):
            await self._caller(area, request)

    async def _check(self, area: Area, route: Route, request: Request) -> None:
        caller = request.caller
        if area.target is not None:
            target = dict(await area.target(request))
            if not self.cloud.policy.allows(route.rule, caller, target):
                # What the caller may not even see is told in the words for what is not there.
                unseen = target.get(UNSEEN)
                if isinstance(unseen, NotFound):
                    raise unseen
                raise Forbidden(f"You are not authorized to perform the requested action: {route.rule}.")
            return
        target = {
            "project_id": caller.project_id,
            "user_id": caller.user_id,
            "domain_id": caller.domain_id,
            **request.params,
        }
        target["project_id"] = caller.project_id
        target["user_id"] = caller.user_id
        if not self.cloud.policy.allows(route.rule, caller, target):
            raise Forbidden(f"Policy doesn't allow {route.rule} to be performed.")


def _no_action(body: Mapping[str, Any]) -> Invalid:
    names = [name[:64] for name in body]
    if len(names) == 1:
        return Invalid(f"There is no such action: {names[0]}.")
    return Invalid(f"The body must name one action; found: {', '.join(names[:5]) or 'none'}.")


def _request(cloud: Cloud, scope: Scope, receive: Callable[[], Awaitable[Any]]) -> Request:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers[name.decode("latin-1").lower()] = value.decode("latin-1")
    scheme = scope.get("scheme", "http")
    host = headers.get("host", "")
    if cloud.behind_proxy:
        scheme = {"http": "http", "https": "https"}.get(headers.get("x-forwarded-proto", ""), scheme)
        host = headers.get("x-forwarded-host", host)
    if not _FORWARDED.match(host):
        server = scope.get("server") or ("127.0.0.1", None)
        host = f"{server[0]}:{server[1]}" if server[1] else str(server[0])
    # "OPTIONS *" asks for no path at all.
    path = re.sub(r"/{2,}", "/", scope["path"] if scope["path"].startswith("/") else f"/{scope['path']}")
    return Request(
        cloud=cloud,
        method=scope["method"],
        path=path,
        headers=headers,
        query_string=scope.get("query_string", b"").decode("latin-1"),
        id="req-" + cloud.chance.uuid(),
        base=f"{scheme}://{host}",
        receive=receive,
        peer=(scope.get("client") or ("", 0))[0],
    )


async def _send(response: Response, request: Request, send: Send) -> None:
    content = response.content()
    headers = [(name.encode("latin-1"), _header(value)) for name, value in response.headers]
    if content or (response.stream is None and response.status not in (204, 304)):
        headers.append((b"content-length", str(len(content)).encode()))
    if content or response.stream is not None:
        headers.append((b"content-type", response.media_type.encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is None or request.method == "HEAD":
        if response.stream is not None:
            await _close(response.stream)
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else content})
        return
    try:
        async for piece in response.stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        await _close(response.stream)
    await send({"type": "http.response.body", "body": b""})


def _header(value: str) -> bytes:
    """A header's value. What may come from a request, such as a name in an address, must not begin another header."""
    if not (value.isascii() and value.isprintable()):
        value = quote(value, safe=_PRINTABLE, errors="replace")
    return value.encode()


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        with contextlib.suppress(Exception):
            result = close()
            if inspect.isawaitable(result):
                await result
