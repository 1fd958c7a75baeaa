"""A network on demand. See Neutron's API reference, "Auto allocated topologies"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.network.collection import identifier, rights, settled
from cumulet.api.network.rules import MEMBER, READER
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import auto_topology
from cumulet.errors import Invalid


async def show(request: Request) -> Response:
    """GET /auto-allocated-topology/{project_id}"""
    may, project_id = rights(request), identifier(request)
    fields = [field for field in request.args("fields") if field]
    if "dry-run" in fields:
        await request.cloud.db.read(auto_topology.dry_run, may, project_id)
        id = "dry-run=pass"
    elif fields:
        raise Invalid("Bad auto_allocate request: Unrecognized field.", code="BadRequest")
    else:
        id = await settled(request.cloud.db.write(auto_topology.show, may, project_id))
    named = may.project if project_id == "None" else project_id
    return ok({"auto_allocated_topology": {"id": id, "project_id": named, "tenant_id": named}})


async def delete(request: Request) -> Response:
    """DELETE /auto-allocated-topology/{project_id}"""
    await settled(request.cloud.db.write(auto_topology.delete, rights(request), identifier(request)))
    return no_content()


_PATH = "/v2.0/auto-allocated-topology/{id}"
ROUTES = (
    Route("GET", _PATH, show, rule="get_auto_allocated_topology", check=READER),
    Route("DELETE", _PATH, delete, rule="delete_auto_allocated_topology", check=MEMBER, late=True),
)
