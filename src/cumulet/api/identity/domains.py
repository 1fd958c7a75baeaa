"""/v3/domains. See the API reference, "Domains"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import assignments, domains, projects
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound
from cumulet.wire.identity import DomainChange, DomainNew


def view(request: Request, domain: Row, tags: Sequence[str]) -> dict[str, Any]:
    """A domain as it is shown."""
    return {
        **domain["extra"],
        "id": domain["id"],
        "name": domain["name"],
        "description": domain["description"],
        "enabled": domain["enabled"],
        "tags": list(tags),
        "options": domain["options"],
        "links": lists.links(request, f"domains/{domain['id']}"),
    }


async def index(request: Request) -> Response:
    """GET /v3/domains"""
    return await _list(request, request.caller.domain_id)


async def _list(request: Request, domain_id: str | None, user_id: str | None = None) -> Response:
    query = lists.page(request, domains.SORTABLE)
    matches = lists.matches(request, "name", "enabled")

    def read_all(tx: Tx) -> tuple[list[Row], dict[str, list[str]]]:
        mine = None if user_id is None else assignments.domains_of(tx, user_id)
        found = domains.find(tx, matches, query, domain_id=domain_id, among=mine)
        return found, projects.tags_of(tx, [row["id"] for row in found])

    try:
        found, tags = await request.cloud.db.read(read_all)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    members = [view(request, row, tags[row["id"]]) for row in found]
    return lists.collection(request, "domains", members, query)


async def domains_of(request: Request, user_id: str) -> Response:
    """The domains on which a user has a role."""
    return await _list(request, None, user_id)


async def show(request: Request) -> Response:
    """GET /v3/domains/{domain_id}"""
    domain_id = request.params["domain_id"]

    def read_one(tx: Tx) -> tuple[Row, list[str]]:
        return domains.show(tx, domain_id), projects.list_tags(tx, domain_id)

    domain, tags = await request.cloud.db.read(read_one)
    return ok({"domain": view(request, domain, tags)})


async def create(request: Request) -> Response:
    """POST /v3/domains"""
    body, extra = await read(request, "domain", DomainNew)
    domain = await request.cloud.db.write(
        projects.create,
        name=body.name,
        domain_id=None,
        parent_id=None,
        is_domain=True,
        description=body.description or "",
        enabled=body.enabled,
        tags=body.tags,
        settings=changes(body.options),
        extra=extra,
        project_id=body.explicit_domain_id,
    )
    return created({"domain": view(request, domain, body.tags)})


async def update(request: Request) -> Response:
    """PATCH /v3/domains/{domain_id}"""
    body, extra = await read(request, "domain", DomainChange)
    fields = changes(body)
    if "options" in fields:
        fields["options"] = changes(fields["options"])
    domain_id = request.params["domain_id"]

    def write(tx: Tx) -> tuple[Row, list[str]]:
        return projects.update(tx, domain_id, fields, extra, "domain"), projects.list_tags(tx, domain_id)

    domain, tags = await request.cloud.db.write(write)
    return ok({"domain": view(request, domain, tags)})


async def delete(request: Request) -> Response:
    """DELETE /v3/domains/{domain_id}"""
    await request.cloud.db.write(projects.delete, request.params["domain_id"], "domain")
    return no_content()


_READ = f"{ADMIN_OR_READER} or token.domain.id:%(target.domain.id)s or token.project.domain.id:%(target.domain.id)s"
_LIST = f"{ADMIN_OR_READER} or (role:reader and domain_id:%(target.domain.id)s)"
_ONE = "/v3/domains/{domain_id}"

ROUTES = (
    Route("GET", "/v3/domains", index, "identity:list_domains", _LIST),
    Route("POST", "/v3/domains", create, "identity:create_domain", ADMIN),
    Route("GET", _ONE, show, "identity:get_domain", _READ),
    Route("PATCH", _ONE, update, "identity:update_domain", ADMIN),
    Route("DELETE", _ONE, delete, "identity:delete_domain", ADMIN),
)
