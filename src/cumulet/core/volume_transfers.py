"""Volume transfers: a volume on offer to whoever knows the key, which is shown once."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

from cumulet.core.volumes import change, listing, usage
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.values import Caller

SORTABLE: Mapping[str, str] = {
    "created_at": "t.created_at",
    "display_name": "coalesce(t.name, '')",
    "id": "t.id",
    "name": "coalesce(t.name, '')",
    "volume_id": "t.volume_id",
}
_FILTERS: Mapping[str, str] = {
    "name": "t.name",
    "display_name": "t.name",
    "id": "t.id",
    "volume_id": "t.volume_id",
}
_SOURCE = "volume_transfers t join volumes v on v.id = t.volume_id"
_COLUMNS = "t.*, v.project_id"


def _digest(salt: str, key: str) -> str:
    return hmac.new(salt.encode(), key.encode(), sha256).hexdigest()


def _row(tx: Tx, id: str) -> Row:
    row = tx.one(f"select {_COLUMNS} from {_SOURCE} where t.id = :id", id=id)
    if row is None:
        raise NotFound(f"Transfer {id} could not be found.")
    return row


def find(tx: Tx, caller: Caller, id: str) -> Row:
    """An offer of the caller's project. Raises NotFound."""
    row = _row(tx, id)
    if not caller.sees(row["project_id"]):
        raise NotFound(f"Transfer {id} could not be found.")
    return row


def transfers(
    tx: Tx, caller: Caller, query: Query, filters: Mapping[str, str], *, everybody: bool
) -> list[Row]:
    """A page of the offers of the caller's project. Raises NotFound for the marker."""
    where = Where()
    if not (everybody and caller.is_admin):
        where.equal("v.project_id", caller.project_id)
    for name, value in filters.items():
        if name in _FILTERS:
            where.equal(_FILTERS[name], value)
        else:
            where.add("1 = 0")
    try:
        return page(tx, _SOURCE, where, query, SORTABLE, columns=_COLUMNS, key="t.id")
    except MarkerNotFound as error:
        raise NotFound(f"Transfer {error} could not be found.") from None


def create(
    tx: Tx, caller: Caller, volume_id: str, name: str | None, *, no_snapshots: bool
) -> tuple[Row, str]:
    """Offer a volume; return the offer and its key. Raises NotFound, Invalid."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    if volume["shown"] != "available":
        raise Invalid(f"Invalid volume: status must be available, it is {volume['shown']}.")
    if volume["group_id"] is not None:
        raise Invalid(f"Invalid volume: volume {volume_id} must not belong to a group.")
    snapshots = tx.all("select id, status from snapshots where volume_id = :id", id=volume_id)
    for snapshot in snapshots:
        if not no_snapshots and snapshot["status"] != "available":
            raise Invalid(
                f"Invalid snapshot: snapshot {snapshot['id']} status must be available, it is {snapshot['status']}."
            )
    id, salt, key = tx.uuid(), tx.chance.token(8), tx.chance.token(16)
    tx.insert(
        "volume_transfers", id=id, volume_id=volume_id, name=name, salt=salt, key_digest=_digest(salt, key),
        no_snapshots=no_snapshots, source_project_id=volume["project_id"], created_at=tx.now,
    )  # fmt: skip
    tx.update("volumes", volume_id, status="awaiting-transfer", updated_at=tx.now)
    return _row(tx, id), key


def delete(tx: Tx, caller: Caller, id: str) -> None:
    """Take an offer back. Raises NotFound."""
    row = find(tx, caller, id)
    tx.lock("holders", row["volume_id"])
    tx.delete("volume_transfers", id)
    tx.run(
        "update volumes set status = 'available', updated_at = :now where id = :id and status = 'awaiting-transfer'",
        now=tx.now,
        id=row["volume_id"],
    )


def accept(tx: Tx, caller: Caller, id: str, key: str) -> Row:
    """Take a volume that is on offer, and its snapshots where they are on offer too.

    Raises NotFound, Invalid for a wrong key or a volume that is not on offer any more, OverQuota.
    """
    if caller.project_id is None:
        raise Forbidden("A volume belongs to a project; ask with a token that is scoped to one.")
    row = _row(tx, id)
    if not hmac.compare_digest(row["key_digest"], _digest(row["salt"], key)):
        raise Invalid(f"Invalid auth key: attempt to transfer {id} with invalid auth key.")
    tx.lock("holders", row["volume_id"])
    volume = tx.one(
        "select v.*, t.name as type_name from volumes v left join volume_types t on t.id = v.volume_type_id where v.id = :id",
        id=row["volume_id"],
    )
    if volume is None or volume["status"] != "awaiting-transfer":
        raise Invalid(f"Invalid volume: volume {row['volume_id']} is not awaiting its transfer.")
    change.check_thawed(tx, volume)
    snapshots = tx.all("select id, size from snapshots where volume_id = :id", id=volume["id"])
    if row["no_snapshots"]:
        snapshots = []
    usage.check(
        tx, caller.project_id, volume["type_name"], volumes=1, snapshots=len(snapshots),
        gigabytes=volume["size"] + sum(one["size"] for one in snapshots), largest=volume["size"],
    )  # fmt: skip
    _give(tx, caller, "volumes", volume["id"], status="available")
    for one in snapshots:
        _give(tx, caller, "snapshots", one["id"])
    tx.delete("volume_transfers", id)
    return row


def _give(tx: Tx, caller: Caller, table: str, id: str, **changes: str) -> None:
    """The volume or snapshot is the caller's project's from now on, with what it holds."""
    tx.update(table, id, project_id=caller.project_id, user_id=caller.user_id, updated_at=tx.now, **changes)
    tx.update("holders", id, project_id=caller.project_id)
    tx.run("update claims set project_id = :project where holder = :id", project=caller.project_id, id=id)
