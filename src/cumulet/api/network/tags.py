"""Tags. See Neutron's API reference, "Standard attributes tag extension"."""

from __future__ import annotations

from collections.abc import Mapping

from cumulet.api.asgi import Handler, Route
from cumulet.api.network.collection import identifier, rights, settled
from cumulet.api.network.rules import (
    ADMIN,
    MEMBER,
    NET_MEMBER,
    NET_READER,
    OWN_MEMBER,
    OWN_READER,
    READER,
    either,
    tags,
)
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import network_tags
from cumulet.errors import Invalid
from cumulet.wire.network import checks

_ON_NETWORK_READER = either(ADMIN, OWN_READER, NET_READER)
_ON_NETWORK_MEMBER = either(ADMIN, OWN_MEMBER, NET_MEMBER)
#: Who may read and who may change the tags of what.
_WHO: Mapping[str, tuple[str, str]] = {
    "networks": (either(READER, "rule:shared", "rule:external"), MEMBER),
    "subnets": (either(_ON_NETWORK_READER, "rule:shared", "rule:external_network"), _ON_NETWORK_MEMBER),
    "subnetpools": (either(READER, "rule:shared_subnetpools"), MEMBER),
    "ports": (_ON_NETWORK_READER, _ON_NETWORK_MEMBER),
    "routers": (READER, MEMBER),
    "floatingips": (READER, MEMBER),
    "trunks": (READER, MEMBER),
    "security_groups": (either(READER, "rule:shared_security_group"), MEMBER),
}

RULES: Mapping[str, str] = {
    rule: check
    for many, (read, write) in _WHO.items()
    for rule, check in tags(network_tags.TAGGED[many].noun.one, read, write).items()
}


async def _asked(request: Request) -> list[str]:
    """The tags of the body. Raises Invalid."""
    body = await request.document()
    if "tags" not in body:
        raise Invalid("Invalid input for operation: Invalid tags body.", code="InvalidInput")
    wrong = checks.items(checks.text(255))(body["tags"])
    if wrong:
        raise Invalid(f"Invalid input for operation: tags: {wrong}.", code="InvalidInput")
    found: list[str] = body["tags"]
    return found


def _tag(request: Request) -> str:
    tag = request.params["tag"]
    if len(tag) > 255 or "\x00" in tag:
        raise Invalid(
            f"Invalid input for operation: '{tag[:300]}' exceeds maximum length of 255.", code="InvalidInput"
        )
    return tag


def _handlers(many: str) -> dict[tuple[str, str], Handler]:
    async def page(request: Request) -> Response:
        found = await request.cloud.db.read(network_tags.page, rights(request), many, identifier(request))
        return ok({"tags": found})

    async def replace(request: Request) -> Response:
        asked = await _asked(request)
        work = request.cloud.db.write(network_tags.replace, rights(request), many, identifier(request), asked)
        return ok({"tags": await settled(work)})

    async def add(request: Request) -> Response:
        asked = await _asked(request)
        work = request.cloud.db.write(network_tags.add, rights(request), many, identifier(request), asked)
        return ok({"tags": await settled(work)})

    async def clear(request: Request) -> Response:
        await request.cloud.db.write(network_tags.clear, rights(request), many, identifier(request))
        return no_content()

    async def show(request: Request) -> Response:
        await request.cloud.db.read(
            network_tags.show, rights(request), many, identifier(request), _tag(request)
        )
        return no_content()

    async def put(request: Request) -> Response:
        tag = _tag(request)
        work = request.cloud.db.write(
            network_tags.add, rights(request), many, identifier(request), [tag], verb="update"
        )
        await settled(work)
        return Response(201)

    async def remove(request: Request) -> Response:
        await request.cloud.db.write(
            network_tags.remove, rights(request), many, identifier(request), _tag(request)
        )
        return no_content()

    return {
        ("GET", ""): page, ("PUT", ""): replace, ("POST", ""): add, ("DELETE", ""): clear,
        ("GET", "/{tag}"): show, ("PUT", "/{tag}"): put, ("DELETE", "/{tag}"): remove,
    }  # fmt: skip


_VERBS = {"GET": "get", "PUT": "update", "POST": "create", "DELETE": "delete"}


def _routes(many: str) -> list[Route]:
    found = []
    path = f"/v2.0/{many.replace('_', '-')}/{{id}}/tags"
    for (method, rest), handler in _handlers(many).items():
        rule = f"{_VERBS[method]}_{network_tags.TAGGED[many].noun.one}:tags"
        found.append(Route(method, path + rest, handler, rule=rule, check=RULES[rule], late=True))
    return found


ROUTES = tuple(route for many in network_tags.TAGGED for route in _routes(many))
