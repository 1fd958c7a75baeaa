"""Bare metal nodes, which compute showed until 2.35 where there was a service of them; here is none."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response
from cumulet.core.policy import ADMIN
from cumulet.errors import CumuletError, Invalid


async def read(request: Request) -> Response:
    """GET /os-baremetal-nodes, /os-baremetal-nodes/{id}"""
    raise CumuletError("There is no bare metal service in this cloud.", status=501)


async def write(request: Request) -> Response:
    """POST /os-baremetal-nodes, /os-baremetal-nodes/{id}/action, DELETE /os-baremetal-nodes/{id}"""
    raise Invalid("Command not supported: compute never changed bare metal nodes, it only showed them.")


_RULE, _ALL, _LAST = "os_compute_api:os-baremetal-nodes", "/v2.1/os-baremetal-nodes", (2, 35)

ROUTES = (
    Route("GET", _ALL, read, f"{_RULE}:list", ADMIN, until=_LAST),
    Route("POST", _ALL, write, _RULE, ADMIN, until=_LAST),
    Route("GET", f"{_ALL}/{{id}}", read, f"{_RULE}:show", ADMIN, until=_LAST),
    Route("DELETE", f"{_ALL}/{{id}}", write, _RULE, ADMIN, until=_LAST),
    Route("POST", f"{_ALL}/{{id}}/action", write, _RULE, ADMIN, until=_LAST),
)
