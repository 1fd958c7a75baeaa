"""Placement's resource providers: whatever has something to give out, in trees, with a generation each.

A provider's generation grows with every change of its inventory, allocations, traits and (for newer clients)
aggregates; whoever writes with an older one is refused. All writers lock the provider's row first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from cumulet.db.engine import Row, Tx, chunks
from cumulet.errors import Conflict, Invalid, NotFound

#: Error codes of the Placement API, which clients match on.
CONCURRENT = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
IN_USE = "placement.resource_provider.inuse"
HAS_CHILDREN = "placement.resource_provider.cannot_delete_parent"


class Provider(msgspec.Struct, frozen=True):
    """A resource provider."""

    id: str
    name: str
    generation: int
    root_id: str
    parent_id: str | None = None
    #: The host that it stands for, if it is one of ours.
    agent: str | None = None
    updated_at: float = 0.0


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed by. Inner sets are alternatives, all outer ones must be met."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    member_of: Sequence[frozenset[str]] = ()
    not_member_of: frozenset[str] = frozenset()
    required: Sequence[frozenset[str]] = ()
    forbidden: frozenset[str] = frozenset()
    #: What it must have room for.
    ids: frozenset[str] | None = None


_COLUMNS = "id, name, generation, root_id, parent_id, agent, updated_at"


def _provider(row: Row) -> Provider:
    return Provider(**{**row, "root_id": row["root_id"] or row["id"]})


def find(tx: Tx, provider_id: str) -> Provider:
    """One provider. Raises NotFound."""
    row = tx.one(f"select {_COLUMNS} from resource_providers where id = :id", id=provider_id)
    if row is None:
        raise NotFound(f"No resource provider with uuid {provider_id} found")
    return _provider(row)


def lock(tx: Tx, provider_id: str, generation: int | None = None) -> Provider:
    """Keep others from the provider until the end of the transaction.

    Raises NotFound, and Conflict if it is not at ``generation`` (None: whatever it is at).
    """
    row = tx.one(f"select {_COLUMNS} from resource_providers where id = :id{tx.for_update}", id=provider_id)
    if row is None:
        raise NotFound(f"No resource provider with uuid {provider_id} found")
    provider = _provider(row)
    if generation is not None and provider.generation != generation:
        raise Conflict(
            f"resource provider generation conflict for provider {provider_id}: "
            f"actual: {provider.generation}, given: {generation}",
            code=CONCURRENT,
        )
    return provider


def lock_all(tx: Tx, provider_ids: Collection[str]) -> dict[str, Provider]:
    """Lock providers in the order of their ids, so that two who lock several never wait for each other.

    What is not there is not in the answer.
    """
    found: dict[str, Provider] = {}
    for some in chunks(sorted(frozenset(provider_ids))):
        rows = tx.all(
            f"select {_COLUMNS} from resource_providers where id in :ids order by id{tx.for_update}", ids=some
        )
        found.update({row["id"]: _provider(row) for row in rows})
    return found


def bump(tx: Tx, provider_ids: Iterable[str]) -> None:
    """Let generations grow; the providers are locked."""
    for some in chunks(provider_ids):
        tx.run(
            "update resource_providers set generation = generation + 1, updated_at = :now where id in :ids",
            now=tx.now,
            ids=some,
        )


def create(
    tx: Tx, name: str, *, uuid: str | None = None, parent_id: str | None = None, agent: str | None = None
) -> Provider:
    """Make a provider. Raises Invalid for a parent that is not there, Conflict for a taken name or id."""
    key = uuid or tx.uuid()
    root = key
    if parent_id is not None:
        if parent_id == key:
            raise Invalid(f"Unable to create resource provider {name!r}: it cannot be its own parent.")
        root = _parent(tx, name, parent_id).root_id
    taken = [
        f"{what}: {value}"
        for what, column, value in (("uuid", "id", key), ("name", "name", name))
        if tx.one(f"select 1 from resource_providers where {column} = :value", value=value) is not None
    ]
    made = not taken and tx.insert_new(
        "resource_providers", id=key, name=name, generation=0, parent_id=parent_id, root_id=root, agent=agent,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    if not made:
        raise Conflict(
            f"Conflicting resource provider {', '.join(taken) or name} already exists.", code=DUPLICATE_NAME
        )
    return find(tx, key)


def _parent(tx: Tx, name: str, parent_id: str) -> Provider:
    try:
        return lock(tx, parent_id)
    except NotFound:
        raise Invalid(
            f"Unable to save resource provider {name!r}: parent provider {parent_id} does not exist."
        ) from None


def update(
    tx: Tx, provider_id: str, name: str, parent_id: str | msgspec.UnsetType | None, *, move: bool
) -> Provider:
    """Change name and parent; ``UNSET`` leaves the parent. Without ``move`` a parent can only be given once.

    Raises NotFound, Invalid for a parent that cannot be, Conflict for a taken name.
    """
    provider = lock(tx, provider_id)
    if tx.one("select 1 from resource_providers where name = :name and id <> :id", name=name, id=provider_id):
        raise Conflict(f"Conflicting resource provider {name} already exists.", code=DUPLICATE_NAME)
    tx.update("resource_providers", provider_id, name=name, updated_at=tx.now)
    if parent_id is not msgspec.UNSET and parent_id != provider.parent_id:
        _move(tx, provider, parent_id, move=move)
    return find(tx, provider_id)


def _move(tx: Tx, provider: Provider, parent_id: str | None, *, move: bool) -> None:
    if provider.parent_id is not None and not move:
        what = "un-parenting" if parent_id is None else "re-parenting"
        raise Invalid(
            f"Unable to save resource provider {provider.id}: {what} a provider is possible since version 1.37."
        )
    below = _subtree(tx, provider)
    if parent_id in below:
        raise Invalid(
            f"Unable to save resource provider {provider.id}: the new parent {parent_id} is below it; "
            "a loop in the tree is not allowed."
        )
    root = provider.id if parent_id is None else _parent(tx, provider.name, parent_id).root_id
    tx.update("resource_providers", provider.id, parent_id=parent_id)
    for some in chunks(below):
        tx.run("update resource_providers set root_id = :root where id in :ids", root=root, ids=some)


def _subtree(tx: Tx, provider: Provider) -> list[str]:
    """The ids of a provider and of all below it."""
    rows = tx.all("select id, parent_id from resource_providers where root_id = :root", root=provider.root_id)
    children: dict[str, list[str]] = {}
    for row in rows:
        children.setdefault(row["parent_id"], []).append(row["id"])
    found, ahead = [], [provider.id]
    while ahead:
        found.append(ahead.pop())
        ahead += children.get(found[-1], [])
    return found


def delete(tx: Tx, provider_id: str) -> None:
    """Remove a provider with its inventory. Raises NotFound, Conflict while it is used, or is our host's."""
    provider = lock(tx, provider_id)
    if tx.one("select 1 from resource_providers where parent_id = :id", id=provider_id) is not None:
        raise Conflict(
            f"Unable to delete parent resource provider {provider_id}: It has child resource providers.",
            code=HAS_CHILDREN,
        )
    user = tx.value("select consumer_id from allocations where provider_id = :id", id=provider_id)
    if user is not None:
        raise Conflict(
            f"Unable to delete resource provider {provider_id}: Resource provider has allocations "
            f"(of consumer {user}, for one).",
            code=IN_USE,
        )
    if provider.agent is not None:
        raise Conflict(
            f"Unable to delete resource provider {provider_id}: it stands for a host of this cloud. Delete the "
            "host's compute service instead.",
            code=IN_USE,
        )
    remove(tx, provider_id)


def remove(tx: Tx, provider_id: str) -> None:
    """Remove a provider's row and what goes with it. Raises StillHeld while something refers to it."""
    # A root refers to itself, which a foreign key that restricts would take for a user.
    tx.update("resource_providers", provider_id, root_id=None)
    tx.delete("resource_providers", provider_id)


def listing(tx: Tx, filters: Filters) -> list[Provider]:
    """The providers that pass, by name."""
    conditions, params = ["1 = 1"], {}
    if filters.name is not None:
        conditions.append("name = :name")
        params["name"] = filters.name
    if filters.uuid is not None:
        conditions.append("id = :uuid")
        params["uuid"] = filters.uuid
    if filters.in_tree is not None:
        conditions.append("root_id = (select root_id from resource_providers where id = :tree)")
        params["tree"] = filters.in_tree
    rows = tx.all(
        f"select {_COLUMNS} from resource_providers where {' and '.join(conditions)} order by name", **params
    )
    allowed = _allowed(tx, filters)
    return [_provider(row) for row in rows if allowed is None or row["id"] in allowed]


def _allowed(tx: Tx, filters: Filters) -> frozenset[str] | None:
    """The ids that pass what is looked up elsewhere; None if nothing is."""
    allowed = filters.ids
    if filters.member_of or filters.not_member_of:
        allowed = _both(allowed, _fitting(_members(tx), filters.member_of, filters.not_member_of, _all(tx)))
    if filters.required or filters.forbidden:
        allowed = _both(allowed, _fitting(_traits(tx), filters.required, filters.forbidden, _all(tx)))
    return allowed


def _both(one: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
    return other if one is None else one & other


def _fitting(
    have: dict[str, frozenset[str]],
    wanted: Sequence[frozenset[str]],
    unwanted: frozenset[str],
    everybody: Iterable[str],
) -> frozenset[str]:
    nothing: frozenset[str] = frozenset()
    return frozenset(
        key
        for key in everybody
        if all(have.get(key, nothing) & some for some in wanted) and not have.get(key, nothing) & unwanted
    )


def _all(tx: Tx) -> list[str]:
    return tx.values("select id from resource_providers")


def _members(tx: Tx) -> dict[str, frozenset[str]]:
    """Provider → its aggregates."""
    return _grouped(tx.all("select provider_id, aggregate_id as value from provider_aggregates"))


def _traits(tx: Tx) -> dict[str, frozenset[str]]:
    """Provider → its traits."""
    return _grouped(tx.all("select provider_id, trait as value from provider_traits"))


def _grouped(rows: Iterable[Row]) -> dict[str, frozenset[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["provider_id"], []).append(row["value"])
    return {key: frozenset(values) for key, values in found.items()}


def aggregates(tx: Tx, provider_id: str) -> tuple[Provider, list[str]]:
    """A provider and the ids of its aggregates. Raises NotFound."""
    provider = find(tx, provider_id)
    found = tx.values(
        "select aggregate_id from provider_aggregates where provider_id = :id order by aggregate_id",
        id=provider_id,
    )
    return provider, found


def set_aggregates(
    tx: Tx, provider_id: str, wanted: Collection[str], generation: int | None, *, counts: bool
) -> Provider:
    """Set a provider's aggregates to exactly these; the generation grows if that ``counts``.

    Raises NotFound, Conflict if the provider is not at ``generation``.
    """
    provider = lock(tx, provider_id, generation)
    had = frozenset(aggregates(tx, provider_id)[1])
    for some in chunks(had - frozenset(wanted)):
        tx.run(
            "delete from provider_aggregates where provider_id = :id and aggregate_id in :some",
            id=provider.id,
            some=some,
        )
    for aggregate in sorted(frozenset(wanted) - had):
        tx.insert("provider_aggregates", provider_id=provider.id, aggregate_id=aggregate)
    if counts:
        bump(tx, [provider.id])
    return find(tx, provider_id)
