"""Credentials that users keep here, EC2 keys among them; encrypted with the key of the tokens.

See the API reference, "Credentials", and for EC2 keys "OS-EC2".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from cryptography.fernet import InvalidToken

from cumulet.core import projects, token, users
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from cumulet.values import Caller

SORTABLE = {"id": "id", "type": "type"}
#: What binds a key to the delegation that it was made with; it cannot be changed.
BOUND = ("trust_id", "app_cred_id", "access_token_id", "access_id")


def encrypt(tx: Tx, text: str) -> str:
    """Encrypted with the newest key."""
    return token.cipher(token.keys(tx)).encrypt(text.encode()).decode()


def decrypt(tx: Tx, text: str) -> str:
    """Raises Unavailable if the key is gone: a database without its keys was restored."""
    try:
        return token.cipher(token.keys(tx)).decrypt(text.encode()).decode()
    except InvalidToken:
        raise Unavailable("A stored secret cannot be decrypted: its key is gone.") from None


def rotate_keys(tx: Tx) -> int:
    """Use a new key from now on, and encrypt with it what is kept; the oldest key goes. Returns how many there are.

    Tokens that the oldest key encrypted end with it.
    """
    token.add_key(tx)
    kept = token.keys(tx)
    keys = token.cipher(kept)
    for table, column in (("credentials", "blob"), ("oauth_consumers", "secret")):
        for row in tx.all(f"select id, {column} as kept from {table}"):
            tx.update(table, row["id"], **{column: keys.rotate(row["kept"].encode()).decode()})
    return len(kept)


def ec2_id(access: str) -> str:
    """The id of the credential that holds an EC2 key."""
    return hashlib.sha256(access.encode()).hexdigest()


def show(tx: Tx, caller: Caller, credential_id: str) -> Row:
    """One credential, its blob in clear. Raises NotFound, Forbidden for one outside a delegation's project."""
    found = tx.one("select * from credentials where id = :id", id=credential_id)
    if found is None:
        raise NotFound(f"Could not find credential: {credential_id[:64]}.")
    _check_delegation(caller, found["project_id"])
    return {**found, "blob": decrypt(tx, found["blob"])}


def _delegated(caller: Caller) -> bool:
    return bool(caller.trust_id or caller.application_credential_id)


def _check_delegation(caller: Caller, project_id: str | None) -> None:
    """A token of a trust or application credential reaches what belongs to its project, and nothing else."""
    if _delegated(caller) and project_id != caller.project_id:
        raise Forbidden("The credential's project is not the one that the token was delegated for.")


def find(tx: Tx, caller: Caller, matches: Sequence[Match], query: Query, *, user_id: str | None) -> list[Row]:
    """Credentials that match, their blobs in clear; of one user if given. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"user_id": "user_id", "type": "type"})
    if user_id is not None:
        where.equal("user_id", user_id)
    if _delegated(caller):
        where.add("project_id = :delegated", delegated=caller.project_id)
    found = page(tx, "credentials", where, query, SORTABLE, (("id", "asc"),))
    return [{**row, "blob": decrypt(tx, row["blob"])} for row in found]


def create(
    tx: Tx,
    caller: Caller,
    *,
    user_id: str,
    project_id: str | None,
    type: str,
    blob: str,
    extra: Mapping[str, Any],
) -> Row:
    """Keep a credential. Raises Invalid, Forbidden, Conflict for an EC2 key that is there already."""
    _check_delegation(caller, project_id)
    try:
        users.show(tx, user_id)
        if project_id is not None:
            projects.show(tx, project_id)
    except NotFound as error:
        raise Invalid(error.message) from None
    credential_id = tx.uuid().replace("-", "")
    if type.lower() == "ec2":
        if caller.restricted:
            raise Forbidden("A restricted application credential cannot make further credentials.")
        if project_id is None:
            raise Invalid("Invalid input for field/attribute project_id: an EC2 credential needs one.")
        document = ec2_document(blob)
        credential_id = ec2_id(str(document["access"]))
        document |= {"trust_id": caller.trust_id} if caller.trust_id else {}
        if caller.application_credential_id:
            document["app_cred_id"] = caller.application_credential_id
        blob = msgspec.json.encode(document).decode()
    try:
        tx.insert(
            "credentials", id=credential_id, user_id=user_id, project_id=project_id, type=type,
            blob=encrypt(tx, blob), extra=dict(extra),
        )  # fmt: skip
    except Duplicate:
        raise Conflict("Conflict occurred attempting to store credential - Duplicate entry.") from None
    return show(tx, caller, credential_id)


def ec2_document(blob: str) -> dict[str, Any]:
    """The content of an EC2 credential. Raises Invalid unless it is an object with ``access``."""
    try:
        document = msgspec.json.decode(blob)
    except msgspec.DecodeError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("access"), str):
        raise Invalid("Invalid blob in credential: a JSON object with access and secret was expected.")
    return document


def update(
    tx: Tx, caller: Caller, credential_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]
) -> Row:
    """Change a credential. Raises NotFound, Invalid, Forbidden."""
    old = show(tx, caller, credential_id)
    _check_delegation(caller, changes.get("project_id", old["project_id"]))
    new = {**old, **changes}
    if new["type"].lower() == "ec2" or old["type"].lower() == "ec2":
        before, after = ec2_document(old["blob"]), ec2_document(new["blob"])
        for name in BOUND:
            if before.get(name) != after.get(name):
                raise Invalid(f"{name} can not be updated for credential.")
    try:
        users.show(tx, new["user_id"])
        if new["project_id"] is not None:
            projects.show(tx, new["project_id"])
    except NotFound as error:
        raise Invalid(error.message) from None
    tx.update(
        "credentials", credential_id, user_id=new["user_id"], project_id=new["project_id"], type=new["type"],
        blob=encrypt(tx, new["blob"]), extra={**old["extra"], **extra},
    )  # fmt: skip
    return show(tx, caller, credential_id)


def delete(tx: Tx, caller: Caller, credential_id: str) -> None:
    """Raises NotFound, Forbidden."""
    show(tx, caller, credential_id)
    tx.delete("credentials", credential_id)


# -- EC2 keys ----------------------------------------------------------------------------------------------------


def create_ec2(tx: Tx, caller: Caller, user_id: str, project_id: str) -> Row:
    """Make an EC2 key for a user in a project. Raises NotFound, Forbidden."""
    users.show(tx, user_id)
    projects.show(tx, project_id)
    blob = {"access": tx.chance.token(16), "secret": tx.chance.token(16), "trust_id": caller.trust_id}
    return create(
        tx, caller, user_id=user_id, project_id=project_id, type="ec2",
        blob=msgspec.json.encode(blob).decode(), extra={},
    )  # fmt: skip


def ec2_key(tx: Tx, user_id: str, access: str) -> Row:
    """The credential that holds an EC2 key of a user, its blob in clear. Raises NotFound."""
    # The id follows from the access that it was made with; a change of the blob may have given it another.
    for row in tx.all(
        "select * from credentials where user_id = :user and type = 'ec2' order by id = :id desc limit 10000",
        user=user_id,
        id=ec2_id(access),
    ):
        blob = decrypt(tx, row["blob"])
        if ec2_document(blob)["access"] == access:
            return {**row, "blob": blob}
    raise missing_ec2(access)


def missing_ec2(access: str) -> NotFound:
    """What is told of an EC2 key that is not there, for this caller at least."""
    return NotFound(f"Could not find credential: {access[:64]}.")


def show_ec2(tx: Tx, caller: Caller, user_id: str, access: str) -> Row:
    """One EC2 key of a user. Raises NotFound, Forbidden for one outside a delegation's project."""
    found = ec2_key(tx, user_id, access)
    _check_delegation(caller, found["project_id"])
    return found


def find_ec2(tx: Tx, caller: Caller, user_id: str) -> list[Row]:
    """The EC2 keys of a user. Raises NotFound."""
    users.show(tx, user_id)
    return find(tx, caller, (Match("type", "ec2"),), Query(), user_id=user_id)


def delete_ec2(tx: Tx, caller: Caller, user_id: str, access: str) -> None:
    """Raises NotFound."""
    tx.delete("credentials", show_ec2(tx, caller, user_id, access)["id"])


# -- Consumers of OAuth ------------------------------------------------------------------------------------------


def show_consumer(tx: Tx, consumer_id: str) -> Row:
    """One consumer, without its secret. Raises NotFound."""
    found = tx.one("select id, description, extra from oauth_consumers where id = :id", id=consumer_id)
    if found is None:
        raise NotFound(f"Could not find: consumer {consumer_id[:64]}.")
    return found


def find_consumers(tx: Tx) -> list[Row]:
    """All consumers, without their secrets."""
    return tx.all("select id, description, extra from oauth_consumers order by id limit 10000")


def create_consumer(tx: Tx, description: str | None, extra: Mapping[str, Any]) -> tuple[Row, str]:
    """Make a consumer; its secret is shown this once."""
    consumer_id, secret = tx.uuid().replace("-", ""), tx.chance.token(16)
    tx.insert(
        "oauth_consumers",
        id=consumer_id,
        description=description,
        secret=encrypt(tx, secret),
        extra=dict(extra),
    )
    return show_consumer(tx, consumer_id), secret


def update_consumer(tx: Tx, consumer_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a consumer. Raises NotFound."""
    old = show_consumer(tx, consumer_id)
    tx.update("oauth_consumers", consumer_id, **changes, extra={**old["extra"], **extra})
    return show_consumer(tx, consumer_id)


def delete_consumer(tx: Tx, consumer_id: str) -> None:
    """Raises NotFound."""
    show_consumer(tx, consumer_id)
    tx.delete("oauth_consumers", consumer_id)
