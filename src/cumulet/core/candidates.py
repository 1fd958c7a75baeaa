"""Placement's allocation candidates: which providers, together, have what is asked for.

A request consists of groups. A named group is met by one provider; the group without a name by any providers
of one tree, and by providers that share with one of the tree's by an aggregate. Everything that is looked at
is read first (``World``), then decided without the database.

See the Placement user guide, "Modeling with Provider Trees" and "Granular Resource Requests".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from cumulet.core import inventory, providers, resource_classes, traits, usages
from cumulet.core.inventory import Inventory
from cumulet.core.providers import Filters, Provider
from cumulet.core.traits import SHARING
from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound

#: Combinations that are tried, and candidates that are given, at most.
TRIES = 200_000
MOST = 10_000

_NONE: frozenset[str] = frozenset()


class Group(msgspec.Struct, frozen=True):
    """One group of a request. Inner sets are alternatives, all outer ones must be met."""

    resources: Mapping[str, int] = {}
    required: Sequence[frozenset[str]] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: Sequence[frozenset[str]] = ()
    not_member_of: frozenset[str] = frozenset()
    in_tree: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """A whole request. The key of a group is its suffix: "" for the one without a name."""

    groups: Mapping[str, Group]
    limit: int | None = None
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: Sequence[frozenset[str]] = ()
    #: False before 1.29: no two providers of one tree together.
    trees: bool = True


class World(msgspec.Struct, frozen=True):
    """All that candidates are chosen from, by provider."""

    providers: Mapping[str, Provider]
    lines: Mapping[str, Mapping[str, Inventory]]
    used: Mapping[str, Mapping[str, int]]
    traits: Mapping[str, frozenset[str]]
    aggregates: Mapping[str, frozenset[str]]

    def root(self, provider: str) -> str:
        return self.providers[provider].root_id

    def has(self, provider: str, resource_class: str, amount: int) -> bool:
        """True if that amount can be taken from the provider now."""
        line = self.lines.get(provider, {}).get(resource_class)
        if line is None or not line.takes(amount):
            return False
        return self.used.get(provider, {}).get(resource_class, 0) + amount <= line.capacity


class Candidate(msgspec.Struct, frozen=True):
    """One way to meet a request: what to take from whom, and which providers meet which group."""

    taken: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, frozenset[str]]


class Part(msgspec.Struct, frozen=True):
    """One way to meet one group, in the tree of one root."""

    suffix: str
    taken: tuple[tuple[str, str, int], ...]
    providers: frozenset[str]


def find(tx: Tx, ask: Ask) -> tuple[list[Candidate], World, list[str]]:
    """Candidates, what they were chosen from, and the providers that the answer tells of.

    Raises Invalid for a resource class or a trait that is not there.
    """
    _check_names(tx, ask)
    world = look(tx)
    found = choose(world, ask)
    return found, world, _told(world, found, ask)


def providers_with(tx: Tx, filters: Filters, resources: Mapping[str, int]) -> list[Provider]:
    """The providers that pass the filters and have room for all these resources, each by itself.

    Raises Invalid for a resource class or a trait that is not there.
    """
    group = Group(resources=resources, required=filters.required, forbidden=filters.forbidden)
    _check_names(tx, Ask(groups={"": group}))
    if resources:
        world = look(tx)
        room = (
            key
            for key in world.providers
            if all(world.has(key, name, amount) for name, amount in resources.items())
        )
        filters = msgspec.structs.replace(filters, ids=frozenset(room))
    return providers.listing(tx, filters)


def _check_names(tx: Tx, ask: Ask) -> None:
    groups = ask.groups.values()
    try:
        resource_classes.check_known(tx, {name for group in groups for name in group.resources})
    except NotFound as error:
        raise Invalid(f"Invalid resource class in resources parameter: {error.message}") from None
    named = {name for group in groups for some in group.required for name in some}
    named |= {name for group in groups for name in group.forbidden}
    traits.check_known(tx, named | ask.root_required | ask.root_forbidden)


def look(tx: Tx) -> World:
    """Read everything."""
    rows = tx.all(
        "select id, name, generation, root_id, parent_id, agent, updated_at from resource_providers order by name"
    )
    return World(
        providers={row["id"]: Provider(**row) for row in rows},
        lines=inventory.lines(tx),
        used=usages.by_provider(tx),
        traits=_sets(tx, "select provider_id, trait as value from provider_traits"),
        aggregates=_sets(tx, "select provider_id, aggregate_id as value from provider_aggregates"),
    )


def _sets(tx: Tx, sql: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for row in tx.all(sql):
        found.setdefault(row["provider_id"], set()).add(row["value"])
    return {key: frozenset(values) for key, values in found.items()}


def choose(world: World, ask: Ask) -> list[Candidate]:
    """The candidates, in the order of the roots' names."""
    nested = any(provider.parent_id is not None for provider in world.providers.values())
    sharing = {key for key, names in world.traits.items() if SHARING in names}
    anchors = _anchors(world, sharing)
    roots = _roots(world, ask)
    by_root: dict[str, dict[str, list[Part]]] = {root: {} for root in world.providers if root in roots}
    for suffix, group in ask.groups.items():
        alone = suffix != "" or not (nested or sharing)
        parts = _alone(world, suffix, group, anchors) if alone else _together(world, suffix, group, anchors)
        for root, part in parts:
            if root in by_root:
                by_root[root].setdefault(suffix, []).append(part)
    found: dict[object, Candidate] = {}
    most = min(ask.limit or MOST, MOST)
    for candidate in _merged(world, ask, by_root):
        if nested and not ask.trees and _twice_in_a_tree(world, candidate):
            continue
        found.setdefault(_key(candidate), candidate)
        if len(found) >= most:
            break
    return list(found.values())


def _key(candidate: Candidate) -> object:
    taken = frozenset(
        (key, name, amount) for key, lines in candidate.taken.items() for name, amount in lines.items()
    )
    return taken, frozenset(candidate.mappings.items())


def _roots(world: World, ask: Ask) -> frozenset[str]:
    """The roots whose trees may be used."""
    return frozenset(
        key
        for key, provider in world.providers.items()
        if provider.parent_id is None
        and ask.root_required <= world.traits.get(key, _NONE)
        and not ask.root_forbidden & world.traits.get(key, _NONE)
    )


def _anchors(world: World, sharing: Collection[str]) -> dict[str, list[str]]:
    """Sharing provider → the roots of the trees with which it shares an aggregate, its own among them."""
    members: dict[str, list[str]] = {}
    for key, names in world.aggregates.items():
        for name in names:
            members.setdefault(name, []).append(key)
    found: dict[str, list[str]] = {}
    for key in sharing:
        roots = {world.root(key)}
        for name in world.aggregates.get(key, _NONE):
            roots |= {world.root(member) for member in members[name]}
        found[key] = sorted(roots)
    return found


def _in_tree(world: World, group: Group) -> str | None:
    """The root of the tree that a group must be met in; "" if there is no such tree."""
    if group.in_tree is None:
        return None
    return world.root(group.in_tree) if group.in_tree in world.providers else ""


def _alone(
    world: World, suffix: str, group: Group, anchors: Mapping[str, list[str]]
) -> Iterator[tuple[str, Part]]:
    """Single providers that meet a whole group; those that share do so in the tree of each anchor."""
    tree = _in_tree(world, group)
    for key, provider in world.providers.items():
        have = world.traits.get(key, _NONE)
        member = world.aggregates.get(key, _NONE)
        if (
            (tree is None or provider.root_id == tree)
            and all(have & some for some in group.required)
            and not have & group.forbidden
            and all(member & some for some in group.member_of)
            and not member & group.not_member_of
            and all(world.has(key, name, amount) for name, amount in group.resources.items())
        ):
            taken = tuple((key, name, amount) for name, amount in group.resources.items())
            part = Part(suffix=suffix, taken=taken, providers=frozenset({key}))
            for root in anchors.get(key, [provider.root_id]):
                yield root, part


def _together(
    world: World, suffix: str, group: Group, anchors: Mapping[str, list[str]]
) -> Iterator[tuple[str, Part]]:
    """Providers of one tree, and ones that share with it, that meet a group together."""
    tree = _in_tree(world, group)
    options: dict[str, list[list[tuple[str, str, int]]]] = {}
    for position, (name, amount) in enumerate(group.resources.items()):
        for key in world.providers:
            if not world.has(key, name, amount) or world.traits.get(key, _NONE) & group.forbidden:
                continue
            for root in [world.root(key)] if tree is not None else anchors.get(key, [world.root(key)]):
                if (tree is None or root == tree) and _member(world, key, root, group):
                    columns = options.setdefault(root, [[] for _ in group.resources])
                    columns[position].append((key, name, amount))
    tries = 0
    for root, columns in options.items():
        for taken in _product(columns):
            tries += 1
            if tries > TRIES:
                return
            keys = frozenset(key for key, _, _ in taken)
            have = frozenset(name for key in keys for name in world.traits.get(key, _NONE))
            if all(have & some for some in group.required):
                yield root, Part(suffix=suffix, taken=tuple(taken), providers=keys)


def _member(world: World, key: str, root: str, group: Group) -> bool:
    """An aggregate of the root spans its whole tree, so the provider or the root must be in it.

    Each of the two must be in all aggregates by itself, half and half is not enough; and a provider that shares
    with another tree must be in them itself.
    """
    own, whole = world.aggregates.get(key, _NONE), world.aggregates.get(root, _NONE)
    inside = all(own & some for some in group.member_of)
    if not inside and root == world.root(key):
        inside = all(whole & some for some in group.member_of)
    return inside and not (own | whole) & group.not_member_of


def _product(columns: Sequence[Sequence[tuple[str, str, int]]]) -> Iterator[list[tuple[str, str, int]]]:
    if not columns:
        yield []
        return
    for first in columns[0]:
        for rest in _product(columns[1:]):
            yield [first, *rest]


def _merged(
    world: World, ask: Ask, by_root: Mapping[str, Mapping[str, Sequence[Part]]]
) -> Iterator[Candidate]:
    """Combinations of one part of each group, all in one tree, that fit together."""
    tries = [0]
    for parts in by_root.values():
        if len(parts) < len(ask.groups):
            continue
        columns = [parts[suffix] for suffix in ask.groups]
        for combination, taken in _fitting(world, columns, {}, tries):
            if ask.isolate and not _isolated(combination):
                continue
            mappings = {part.suffix: part.providers for part in combination}
            if all(_one_subtree(world, suffixes, mappings) for suffixes in ask.same_subtree):
                yield Candidate(taken=_by_provider(taken), mappings=mappings)
        if tries[0] > TRIES:
            return


def _fitting(
    world: World, columns: Sequence[Sequence[Part]], before: Mapping[tuple[str, str], int], tries: list[int]
) -> Iterator[tuple[list[Part], Mapping[tuple[str, str], int]]]:
    """Combinations that leave no provider over its capacity; branches that would are cut at once."""
    if not columns:
        yield [], before
        return
    for part in columns[0]:
        tries[0] += 1
        if tries[0] > TRIES:
            return
        taken = dict(before)
        for key, name, amount in part.taken:
            taken[key, name] = taken.get((key, name), 0) + amount
        if all(_fits(world, key, name, taken[key, name]) for key, name, _ in part.taken):
            for rest, total in _fitting(world, columns[1:], taken, tries):
                yield [part, *rest], total


def _fits(world: World, key: str, name: str, amount: int) -> bool:
    line = world.lines[key][name]
    return amount <= line.max_unit and world.used.get(key, {}).get(name, 0) + amount <= line.capacity


def _isolated(combination: Iterable[Part]) -> bool:
    """True if no two named groups are met by the same provider."""
    named = [part for part in combination if part.suffix]
    return len({key for part in named for key in part.providers}) == len(named)


def _one_subtree(world: World, suffixes: Collection[str], mappings: Mapping[str, frozenset[str]]) -> bool:
    """True if one of the providers of these groups is above all the others, or is the only one."""
    keys = {key for suffix in suffixes for key in mappings.get(suffix, _NONE)}
    lines = [_upwards(world, key) for key in keys]
    return any(all(key in line for line in lines) for key in keys)


def _upwards(world: World, key: str) -> list[str]:
    found = [key]
    while (above := world.providers[found[-1]].parent_id) is not None:
        found.append(above)
    return found


def _by_provider(taken: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (key, name), amount in taken.items():
        found.setdefault(key, {})[name] = amount
    return found


def _twice_in_a_tree(world: World, candidate: Candidate) -> bool:
    return len({world.root(key) for key in candidate.taken}) < len(candidate.taken)


def _told(world: World, found: Iterable[Candidate], ask: Ask) -> list[str]:
    """The providers that the answer tells of: all of the trees that are used; before 1.29 only those used."""
    used = {key for candidate in found for key in candidate.taken}
    if not ask.trees and any(provider.parent_id is not None for provider in world.providers.values()):
        return [key for key in world.providers if key in used]
    roots = {world.root(key) for key in used}
    return [key for key in world.providers if world.root(key) in roots]
