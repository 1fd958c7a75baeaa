"""/v3/credentials, EC2 keys and OAuth consumers. See the API reference, "Credentials", "OS-EC2", "OS-OAUTH1"."""

from __future__ import annotations

from typing import Any

import msgspec

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import credentials
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Forbidden
from cumulet.wire.identity import ConsumerChange, ConsumerNew, CredentialChange, CredentialNew, Ec2New


def view(request: Request, credential: Row) -> dict[str, Any]:
    """A credential as it is shown."""
    return {
        **credential["extra"],
        "id": credential["id"],
        "user_id": credential["user_id"],
        "project_id": credential["project_id"],
        "type": credential["type"],
        "blob": credential["blob"],
        "links": lists.links(request, f"credentials/{credential['id']}"),
    }


def _text(blob: Any) -> str:
    return blob if isinstance(blob, str) else msgspec.json.encode(blob).decode()


async def index(request: Request) -> Response:
    """GET /v3/credentials: the caller's own, unless the rule for looking at others' allows more."""
    allowed = request.cloud.policy.allows("identity:get_credential", request.caller, {})
    query = lists.page(request, credentials.SORTABLE)
    matches = lists.matches(request, "user_id", "type")
    mine = None if allowed else request.caller.user_id
    try:
        found = await request.cloud.db.read(credentials.find, request.caller, matches, query, user_id=mine)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "credentials", [view(request, row) for row in found], query)


async def show(request: Request) -> Response:
    """GET /v3/credentials/{credential_id}"""
    found = await request.cloud.db.read(credentials.show, request.caller, request.params["credential_id"])
    return ok({"credential": view(request, found)})


async def create(request: Request) -> Response:
    """POST /v3/credentials"""
    body, extra = await read(request, "credential", CredentialNew)
    made = await request.cloud.db.write(
        credentials.create,
        request.caller,
        user_id=body.user_id or request.caller.user_id,
        project_id=body.project_id,
        type=body.type,
        blob=_text(body.blob),
        extra=extra,
    )
    return created({"credential": view(request, made)})


async def update(request: Request) -> Response:
    """PATCH /v3/credentials/{credential_id}"""
    body, extra = await read(request, "credential", CredentialChange)
    fields = changes(body)
    if "blob" in fields:
        fields["blob"] = _text(fields["blob"])
    target = {"target.credential.user_id": fields.get("user_id", request.caller.user_id)}
    if not request.cloud.policy.allows("identity:update_credential", request.caller, target):
        # Nobody gives a credential away to who did not ask for it.
        raise Forbidden("You are not authorized to perform the requested action: identity:update_credential.")
    made = await request.cloud.db.write(
        credentials.update, request.caller, request.params["credential_id"], fields, extra
    )
    return ok({"credential": view(request, made)})


async def delete(request: Request) -> Response:
    """DELETE /v3/credentials/{credential_id}"""
    await request.cloud.db.write(credentials.delete, request.caller, request.params["credential_id"])
    return no_content()


# -- EC2 keys ----------------------------------------------------------------------------------------------------


def ec2_view(request: Request, credential: Row) -> dict[str, Any]:
    """An EC2 key as it is shown."""
    blob = credentials.ec2_document(credential["blob"])
    user_id = credential["user_id"]
    return {
        "user_id": user_id,
        "tenant_id": credential["project_id"],
        "access": blob["access"],
        "secret": blob.get("secret"),
        "trust_id": blob.get("trust_id"),
        "links": lists.links(request, f"users/{user_id}/credentials/OS-EC2/{blob['access']}"),
    }


async def list_ec2(request: Request) -> Response:
    """GET /v3/users/{user_id}/credentials/OS-EC2"""
    found = await request.cloud.db.read(credentials.find_ec2, request.caller, request.params["user_id"])
    return lists.collection(request, "credentials", [ec2_view(request, row) for row in found])


async def create_ec2(request: Request) -> Response:
    """POST /v3/users/{user_id}/credentials/OS-EC2"""
    body = await request.struct(Ec2New)
    made = await request.cloud.db.write(
        credentials.create_ec2, request.caller, request.params["user_id"], body.tenant_id
    )
    return created({"credential": ec2_view(request, made)})


def _ec2(request: Request) -> tuple[str, str]:
    return request.params["user_id"], request.params["credential_id"]


async def show_ec2(request: Request) -> Response:
    """GET /v3/users/{user_id}/credentials/OS-EC2/{credential_id}"""
    found = await request.cloud.db.read(credentials.show_ec2, request.caller, *_ec2(request))
    return ok({"credential": ec2_view(request, found)})


async def delete_ec2(request: Request) -> Response:
    """DELETE /v3/users/{user_id}/credentials/OS-EC2/{credential_id}"""
    await request.cloud.db.write(credentials.delete_ec2, request.caller, *_ec2(request))
    return no_content()


# -- Consumers ---------------------------------------------------------------------------------------------------


def consumer_view(request: Request, consumer: Row) -> dict[str, Any]:
    """A consumer as it is shown, without its secret."""
    return {
        **consumer["extra"],
        "id": consumer["id"],
        "description": consumer["description"],
        "links": lists.links(request, f"OS-OAUTH1/consumers/{consumer['id']}"),
    }


async def list_consumers(request: Request) -> Response:
    """GET /v3/OS-OAUTH1/consumers"""
    found = await request.cloud.db.read(credentials.find_consumers)
    return lists.collection(request, "consumers", [consumer_view(request, row) for row in found])


async def show_consumer(request: Request) -> Response:
    """GET /v3/OS-OAUTH1/consumers/{consumer_id}"""
    found = await request.cloud.db.read(credentials.show_consumer, request.params["consumer_id"])
    return ok({"consumer": consumer_view(request, found)})


async def create_consumer(request: Request) -> Response:
    """POST /v3/OS-OAUTH1/consumers"""
    body, extra = await read(request, "consumer", ConsumerNew)
    made, secret = await request.cloud.db.write(credentials.create_consumer, body.description, extra)
    return created({"consumer": {**consumer_view(request, made), "secret": secret}})


async def update_consumer(request: Request) -> Response:
    """PATCH /v3/OS-OAUTH1/consumers/{consumer_id}"""
    body, extra = await read(request, "consumer", ConsumerChange)
    made = await request.cloud.db.write(
        credentials.update_consumer, request.params["consumer_id"], changes(body), extra
    )
    return ok({"consumer": consumer_view(request, made)})


async def delete_consumer(request: Request) -> Response:
    """DELETE /v3/OS-OAUTH1/consumers/{consumer_id}"""
    await request.cloud.db.write(credentials.delete_consumer, request.params["consumer_id"])
    return no_content()


_MINE = "user_id:%(target.credential.user_id)s"
_READ, _CHANGE = f"{ADMIN_OR_READER} or {_MINE}", f"{ADMIN} or {_MINE}"
_ONE, _EC2 = "/v3/credentials/{credential_id}", "/v3/users/{user_id}/credentials/OS-EC2"
_EC2_CHANGE = f"{ADMIN} or (role:member and {_MINE})"
_CONSUMERS, _CONSUMER = "/v3/OS-OAUTH1/consumers", "/v3/OS-OAUTH1/consumers/{consumer_id}"

ROUTES = (
    Route("GET", "/v3/credentials", index, "identity:list_credentials", _READ),
    Route("POST", "/v3/credentials", create, "identity:create_credential", _CHANGE),
    Route("GET", _ONE, show, "identity:get_credential", _READ),
    Route("PATCH", _ONE, update, "identity:update_credential", _CHANGE),
    Route("DELETE", _ONE, delete, "identity:delete_credential", _CHANGE),
    Route(
        "GET", _EC2, list_ec2, "identity:ec2_list_credentials", f"{ADMIN_OR_READER} or user_id:%(user_id)s"
    ),
    Route("POST", _EC2, create_ec2, "identity:ec2_create_credential", _EC2_CHANGE),
    Route("GET", f"{_EC2}/{{credential_id}}", show_ec2, "identity:ec2_get_credential", _READ),
    Route("DELETE", f"{_EC2}/{{credential_id}}", delete_ec2, "identity:ec2_delete_credential", _EC2_CHANGE),
    Route("GET", _CONSUMERS, list_consumers, "identity:list_consumers", ADMIN_OR_READER),
    Route("POST", _CONSUMERS, create_consumer, "identity:create_consumer", ADMIN),
    Route("GET", _CONSUMER, show_consumer, "identity:get_consumer", ADMIN_OR_READER),
    Route("PATCH", _CONSUMER, update_consumer, "identity:update_consumer", ADMIN),
    Route("DELETE", _CONSUMER, delete_consumer, "identity:delete_consumer", ADMIN),
)
