"""Since 2.102 a parameter of the query string that a request does not know is refused everywhere, not passed over."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from cumulet.api.asgi import Handler, Route
from cumulet.api.query import only
from cumulet.api.request import Request, Response

_SINCE = (2, 102)
#: Lists and others that know parameters, and refuse what they do not know themselves.
_OWN = frozenset(
    {
        "flavors", "flavors/detail", "limits", "os-hypervisors", "os-hypervisors/detail",
        "os-hypervisors/{hypervisor_id}", "os-keypairs", "os-keypairs/{name}", "os-migrations", "os-quota-sets/{project}",
        "os-quota-sets/{project}/detail", "os-server-groups", "os-services", "os-simple-tenant-usage",
        "os-simple-tenant-usage/{project}", "servers", "servers/detail", "servers/{server_id}/os-instance-actions",
        "servers/{server_id}/os-volume_attachments",
    }
)  # fmt: skip


def refusing(routes: Iterable[Route]) -> tuple[Route, ...]:
    """The routes; those that know no parameter refuse every one from that version on."""
    return tuple(
        structs.replace(route, handler=_refusing(route.handler))
        if route.method == "GET"
        and route.rule
        and route.until >= _SINCE
        and route.path.removeprefix("/v2.1/") not in _OWN
        else route
        for route in routes
    )


def _refusing(handler: Handler) -> Handler:
    async def strict(request: Request) -> Response:
        if request.version >= _SINCE:
            only(request)
        return await handler(request)

    strict.__doc__ = handler.__doc__
    return strict
