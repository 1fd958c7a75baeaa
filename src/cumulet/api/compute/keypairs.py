"""Key pairs. See the compute API reference, "Keypairs"."""

from __future__ import annotations

import anyio.to_thread
from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of, unknown_marker, with_more
from cumulet.api.query import only
from cumulet.api.request import Request, Response, ok
from cumulet.core import keypairs
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid
from cumulet.wire import forms
from cumulet.wire import keypairs as wire
from cumulet.wire.body import encode

_RULE = "os_compute_api:os-keypairs"
_CHECK = "(rule:context_is_admin) or user_id:%(user_id)s"


def _user(request: Request, what: str) -> str:
    """Whose key pairs are meant: since 2.10 an administrator can name another user. Raises Forbidden."""
    asked = request.args("user_id") if request.version >= (2, 10) else []
    user_id = asked[0] if asked and asked[0] else request.caller.user_id
    permit.require(request, f"{_RULE}:{what}", user_id=user_id)
    return user_id


async def index(request: Request) -> Response:
    """GET /os-keypairs; in pages since 2.35"""
    paged = request.version >= (2, 35)
    if request.version >= (2, 75):
        only(request, "user_id", "limit", "marker")
    query = page_of(request) if paged else Query()
    try:
        found = await request.cloud.db.read(keypairs.listing, _user(request, "index"), query)
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    bodies = [
        wire.Basic(fingerprint=pair.fingerprint, name=pair.name, public_key=pair.public_key, type=pair.type)
        for pair in found
    ]
    body = {"keypairs": [{"keypair": encode(one, request.version)} for one in bodies]}
    return ok(with_more(body, "keypairs", request, query, [pair.name for pair in found]))


async def create(request: Request) -> Response:
    """POST /os-keypairs; without a public key a pair is made, until 2.91"""
    asked = (await request.struct(wire.Create)).keypair
    allowed = wire.WIDER_NAME if request.version >= (2, 92) else wire.NAME
    if not allowed.match(asked.name):
        raise Invalid(
            f"Invalid input for field/attribute name. Value: {asked.name}. A key pair's name consists of "
            "letters, digits, spaces, '_' and '-' (since 2.92 also '@' and '.')."
        )
    user_id = asked.user_id if isinstance(asked.user_id, str) else request.caller.user_id
    permit.require(request, f"{_RULE}:create", user_id=user_id)
    made = None
    if isinstance(asked.public_key, str):
        public_key = asked.public_key
    elif request.version >= (2, 92):
        raise Invalid("Invalid input for field/attribute keypair: 'public_key' is a required property")
    else:
        made = await anyio.to_thread.run_sync(keypairs.generate, asked.type, user_id)
        public_key = made.public_key
    pair = await request.cloud.db.write(
        keypairs.create, request.caller, user_id, asked.name, asked.type, public_key
    )
    body = wire.Made(
        fingerprint=pair.fingerprint,
        name=pair.name,
        public_key=pair.public_key,
        user_id=pair.user_id,
        type=pair.type,
        private_key=made.private_key if made else UNSET,
    )
    return Response(201 if request.version >= (2, 2) else 200, {"keypair": encode(body, request.version)})


async def show(request: Request) -> Response:
    """GET /os-keypairs/{name}"""
    if request.version >= (2, 75):
        only(request, "user_id")
    pair = await request.cloud.db.read(keypairs.find, _user(request, "show"), request.params["name"])
    body = wire.Full(
        id=pair.number,
        fingerprint=pair.fingerprint,
        name=pair.name,
        public_key=pair.public_key,
        user_id=pair.user_id,
        created_at=forms.precise(pair.created_at),
        type=pair.type,
    )
    return ok({"keypair": encode(body, request.version)})


async def delete(request: Request) -> Response:
    """DELETE /os-keypairs/{name}"""
    if request.version >= (2, 75):
        only(request, "user_id")
    await request.cloud.db.write(keypairs.delete, _user(request, "delete"), request.params["name"])
    return Response(204 if request.version >= (2, 2) else 202)


ROUTES = (
    Route("GET", "/v2.1/os-keypairs", index, f"{_RULE}:index", _CHECK),
    Route("POST", "/v2.1/os-keypairs", create, f"{_RULE}:create", _CHECK),
    Route("GET", "/v2.1/os-keypairs/{name}", show, f"{_RULE}:show", _CHECK),
    Route("DELETE", "/v2.1/os-keypairs/{name}", delete, f"{_RULE}:delete", _CHECK),
)
