"""Key pairs: public keys of users, to be put into servers. Private keys are never stored."""

from __future__ import annotations

from typing import Literal

import msgspec

from cumulet.core import numbers, quota
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, NotFound, OverQuota
from cumulet.values import Caller

Kind = Literal["ssh", "x509"]


class Keypair(msgspec.Struct, frozen=True):
    """A stored key pair; ``number`` is the small id that the API shows."""

    number: int
    user_id: str
    name: str
    type: Kind
    public_key: str
    fingerprint: str
    created_at: float


class Made(msgspec.Struct, frozen=True):
    """A freshly made pair."""

    public_key: str
    private_key: str


def generate(kind: Kind, user_id: str) -> Made:
    """Make a pair. Takes a tenth of a second of CPU, so it runs in no transaction and in a thread."""
    # Certificates take a tenth of the process's start to import, and few clouds need them.
    from cumulet.core import keymaking

    return Made(*keymaking.generate(kind, user_id))


def fingerprint(kind: Kind, public_key: str) -> str:
    """The fingerprint as old clients know it: MD5 of an SSH key, SHA-1 of a certificate. Raises Invalid."""
    from cumulet.core import keymaking

    return keymaking.fingerprint(kind, public_key)


def create(tx: Tx, caller: Caller, user_id: str, name: str, kind: Kind, public_key: str) -> Keypair:
    """Store a public key for a user. Raises Invalid, Conflict for a name that is taken, OverQuota.

    The limit is the one of the caller's project; key pairs are counted by user.
    """
    pair = Keypair(
        number=numbers.following(tx, "keypairs"),
        user_id=user_id,
        name=name,
        type=kind,
        public_key=public_key,
        fingerprint=fingerprint(kind, public_key),
        created_at=tx.now,
    )
    quota.lock_project(tx, f"user:{user_id}")
    used = tx.value("select count(*) from keypairs where user_id = :user", user=user_id)
    limit = quota.limits(tx, "compute", caller.project_id or "", user_id)["key_pairs"]
    if limit != quota.UNLIMITED and used >= limit:
        raise OverQuota(f"Quota exceeded, too many key pairs: {used} of {limit} are used.")
    if not tx.insert_new("keypairs", id=tx.uuid(), **msgspec.structs.asdict(pair)):
        raise Conflict(f"Key pair '{name}' already exists.")
    return pair


def find(tx: Tx, user_id: str, name: str) -> Keypair:
    """A user's key pair. Raises NotFound."""
    row = tx.one("select * from keypairs where user_id = :user and name = :name", user=user_id, name=name)
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
    return _keypair(row)


def listing(tx: Tx, user_id: str, query: Query) -> list[Keypair]:
    """A page of a user's key pairs, by name; the marker is a name. Raises MarkerNotFound."""
    where = Where()
    where.equal("user_id", user_id)
    return [_keypair(row) for row in page(tx, "keypairs", where, query, {}, (("name", "asc"),), key="name")]


def delete(tx: Tx, user_id: str, name: str) -> None:
    """Forget a key pair; servers keep the key that they were made with. Raises NotFound."""
    if not tx.run("delete from keypairs where user_id = :user and name = :name", user=user_id, name=name):
        raise NotFound(f"Keypair {name} not found for user {user_id}")


def _keypair(row: Row) -> Keypair:
    return Keypair(**{name: row[name] for name in Keypair.__struct_fields__})
