"""The servers' API under the name that it had for servers with volumes, ``/os-volumes_boot``, until 2.102."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from cumulet.api.asgi import Route

_SERVERS, _NAME = "/v2.1/servers", "/v2.1/os-volumes_boot"
_LAST = (2, 102)
_PATHS = frozenset(
    {_SERVERS, f"{_SERVERS}/detail", f"{_SERVERS}/{{server_id}}", f"{_SERVERS}/{{server_id}}/action"}
)


def aliases(routes: Iterable[Route]) -> tuple[Route, ...]:
    """The lines among these that the other name has too."""
    return tuple(
        structs.replace(route, path=route.path.replace(_SERVERS, _NAME, 1), until=min(route.until, _LAST))
        for route in routes
        if route.path in _PATHS
    )
