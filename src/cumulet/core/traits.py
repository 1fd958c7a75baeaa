"""Placement's traits: what a provider is or can do, as names; standard ones and CUSTOM_… ones."""

from __future__ import annotations

from collections.abc import Collection

from cumulet.core import providers
from cumulet.core.providers import Provider
from cumulet.core.trait_names import STANDARD
from cumulet.db.engine import Row, Tx, chunks
from cumulet.errors import Conflict, Invalid, NotFound

_STANDARD = frozenset(STANDARD)
#: A provider with this trait lends its inventory to the members of its aggregates.
SHARING = "MISC_SHARES_VIA_AGGREGATE"


def listing(
    tx: Tx, *, names: Collection[str] | None = None, prefix: str | None = None, associated: bool | None = None
) -> list[Row]:
    """Traits by name: {"name", "created_at"}; of these names, with this beginning, (not) on any provider."""
    rows = tx.all("select name, created_at from traits order by name")
    if names is not None:
        wanted = frozenset(names)
        rows = [row for row in rows if row["name"] in wanted]
    if prefix is not None:
        rows = [row for row in rows if row["name"].startswith(prefix)]
    if associated is not None:
        used = frozenset(tx.values("select distinct trait from provider_traits"))
        rows = [row for row in rows if (row["name"] in used) is associated]
    return rows


def find(tx: Tx, name: str) -> Row:
    """One trait. Raises NotFound."""
    row = tx.one("select name, created_at from traits where name = :name", name=name)
    if row is None:
        raise NotFound(f"No such trait(s): {name}.")
    return row


def check_known(tx: Tx, names: Collection[str]) -> None:
    """Raise Invalid, naming those that are not there, unless every name is a trait's."""
    found: list[str] = []
    for some in chunks(frozenset(names)):
        found += tx.values("select name from traits where name in :names", names=some)
    missing = sorted(frozenset(names) - frozenset(found))
    if missing:
        raise Invalid(f"No such trait(s): {', '.join(missing)}.")


def create(tx: Tx, name: str) -> tuple[bool, Row]:
    """Make a trait; False if it is there already."""
    made = tx.insert_new("traits", name=name, created_at=tx.now)
    return made, find(tx, name)


def delete(tx: Tx, name: str) -> None:
    """Forget a custom trait. Raises NotFound, Invalid for a standard trait, Conflict while it is in use."""
    find(tx, name)
    if name in _STANDARD:
        raise Invalid(f"Cannot delete standard trait {name}.")
    user = tx.value("select provider_id from provider_traits where trait = :name", name=name)
    if user is not None:
        raise Conflict(f"The trait {name} is in use by resource provider {user}.")
    tx.run("delete from traits where name = :name", name=name)


def of(tx: Tx, provider_id: str) -> tuple[Provider, list[Row]]:
    """A provider and its traits: {"name", "created_at"}. Raises NotFound."""
    provider = providers.find(tx, provider_id)
    rows = tx.all(
        "select t.name, t.created_at from provider_traits p join traits t on t.name = p.trait "
        "where p.provider_id = :id order by t.name",
        id=provider_id,
    )
    return provider, rows


def replace(
    tx: Tx, provider_id: str, names: Collection[str], generation: int | None = None
) -> tuple[Provider, list[Row]]:
    """Set a provider's traits to exactly these.

    Raises NotFound, Conflict if the provider is not at ``generation`` (None: whatever it is at), Invalid for
    unknown traits. The generation grows if anything changes.
    """
    provider = providers.lock(tx, provider_id, generation)
    check_known(tx, names)
    had = frozenset(tx.values("select trait from provider_traits where provider_id = :id", id=provider_id))
    wanted = frozenset(names)
    for some in chunks(had - wanted):
        tx.run(
            "delete from provider_traits where provider_id = :id and trait in :names",
            id=provider_id,
            names=some,
        )
    for name in sorted(wanted - had):
        tx.insert("provider_traits", provider_id=provider_id, trait=name)
    if had != wanted:
        providers.bump(tx, [provider.id])
    return of(tx, provider_id)


def seed(tx: Tx) -> None:
    """Make the standard traits."""
    have = frozenset(tx.values("select name from traits"))
    for some in chunks((name for name in STANDARD if name not in have), 100):
        values = ", ".join(f"(:n{i}, :now)" for i in range(len(some)))
        names = {f"n{i}": name for i, name in enumerate(some)}
        tx.run(
            f"insert into traits (name, created_at) values {values} on conflict do nothing",
            now=tx.now,
            **names,
        )
