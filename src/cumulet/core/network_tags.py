"""Tags of Network's resources, one by one; lists are filtered by them in core.network_resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from cumulet.core import floatingips, networks, ports, routers, securitygroups, subnetpools, subnets, trunks
from cumulet.core.network_resources import Noun, bump, drop_tags, set_tags
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid, NotFound

#: Tags of one resource, at most: Neutron's MAX_TAGS_COUNT.
LIMIT = 50


class Tagged(msgspec.Struct, frozen=True):
    """One kind of resource that has tags."""

    noun: Noun
    find: Callable[[Tx, Rights, str], Row]
    target: Callable[[Row], dict[str, Any]]


def _owned(row: Row) -> dict[str, Any]:
    return {"project_id": row["project_id"]}


#: By the collection's name.
TAGGED: Mapping[str, Tagged] = {
    tagged.noun.many: tagged
    for tagged in (
        Tagged(networks.NOUN, networks.find, networks.target),
        Tagged(subnets.NOUN, subnets.find, subnets.target),
        Tagged(subnetpools.NOUN, subnetpools.find, _owned),
        Tagged(ports.NOUN, ports.find, ports.target),
        Tagged(routers.NOUN, routers.find, _owned),
        Tagged(floatingips.NOUN, floatingips.find, _owned),
        Tagged(securitygroups.NOUN, securitygroups.find, _owned),
        Tagged(trunks.NOUN, trunks.find, _owned),
    )
}


def _check(tx: Tx, rights: Rights, many: str, id: str, verb: str) -> None:
    """Raise NotFound or Forbidden unless the caller may do this to the resource's tags."""
    tagged = TAGGED[many]
    if verb != "get":
        # It must not go before the transaction ends: nothing else ties tags to what has them.
        tx.lock(many, id)
    row = tagged.find(tx, rights, id)
    rights.demand(f"{verb}_{tagged.noun.one}:tags", tagged.target(row))


def _read(tx: Tx, many: str, id: str) -> list[str]:
    return tx.values(
        "select tag from network_tags where resource = :many and resource_id = :id order by tag",
        many=many,
        id=id,
    )


def page(tx: Tx, rights: Rights, many: str, id: str) -> list[str]:
    """The tags of a resource. Raises NotFound, Forbidden."""
    _check(tx, rights, many, id, "get")
    return _read(tx, many, id)


def show(tx: Tx, rights: Rights, many: str, id: str, tag: str) -> None:
    """Raises NotFound unless the resource has the tag; Forbidden."""
    _check(tx, rights, many, id, "get")
    if tag not in _read(tx, many, id):
        raise _missing(tag)


def _missing(tag: str) -> NotFound:
    return NotFound(f"Tag {tag} could not be found.", code="TagNotFound")


def replace(tx: Tx, rights: Rights, many: str, id: str, tags: Iterable[str]) -> list[str]:
    """Give a resource these tags and no others; returns them. Raises NotFound, Forbidden, Invalid."""
    _check(tx, rights, many, id, "update")
    return _store(tx, many, id, tags)


def add(
    tx: Tx, rights: Rights, many: str, id: str, tags: Iterable[str], *, verb: str = "create"
) -> list[str]:
    """Give a resource more tags; returns all. Raises NotFound, Forbidden, Invalid."""
    _check(tx, rights, many, id, verb)
    return _store(tx, many, id, [*_read(tx, many, id), *tags])


def _store(tx: Tx, many: str, id: str, tags: Iterable[str]) -> list[str]:
    found = sorted(set(tags))
    if len(found) > LIMIT:
        raise Invalid(
            f"Bad {many} request: The number of tags exceed the per-resource limit of {LIMIT}.",
            code="BadRequest",
        )
    set_tags(tx, many, id, found)
    bump(tx, many, id)
    return found


def remove(tx: Tx, rights: Rights, many: str, id: str, tag: str) -> None:
    """Take one tag from a resource. Raises NotFound, Forbidden."""
    _check(tx, rights, many, id, "delete")
    gone = tx.run(
        "delete from network_tags where resource = :many and resource_id = :id and tag = :tag",
        many=many,
        id=id,
        tag=tag,
    )
    if not gone:
        raise _missing(tag)
    bump(tx, many, id)


def clear(tx: Tx, rights: Rights, many: str, id: str) -> None:
    """Take all tags from a resource. Raises NotFound, Forbidden."""
    _check(tx, rights, many, id, "delete")
    drop_tags(tx, many, id)
    bump(tx, many, id)
