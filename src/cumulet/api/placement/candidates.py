"""Allocation candidates. See the Placement API reference, "Allocation candidates"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.placement import search
from cumulet.api.placement.answer import check_accept, fresh
from cumulet.api.placement.providers import CHECK
from cumulet.api.request import Request, Response
from cumulet.core import candidates
from cumulet.core.candidates import Ask, Candidate, Group, World
from cumulet.errors import Invalid

#: Groups in one request.
GROUPS = 100

_NUMBERED = r"[1-9][0-9]*"
_NAMED = r"[a-zA-Z0-9_-]{1,64}"


async def index(request: Request) -> Response:
    """GET /allocation_candidates"""
    check_accept(request)
    ask = _ask(request)
    found, world, told = await request.cloud.db.read(candidates.find, ask)
    form = _requests if request.version >= (1, 12) else _old_requests
    body = {
        "allocation_requests": form(request, found),
        "provider_summaries": {key: _summary(request, world, key, ask) for key in told},
    }
    return fresh(request, body)


def _ask(request: Request) -> Ask:
    keys = _group_keys(request)
    _check_limit(request)
    subtrees = _subtrees(request)
    groups: dict[str, Group] = {}
    for _, suffix in keys:
        groups.setdefault(suffix, _group(request, suffix))
    if len(groups) > GROUPS:
        raise Invalid(f"The request has {len(groups)} groups; at most {GROUPS} are taken.")
    if request.version >= (1, 36):
        _check_subtrees(groups, subtrees)
    else:
        _check_orphans(groups)
    _check_conflicts(groups)
    policy = next(iter(request.args("group_policy")), None)
    if policy is None and sum(1 for suffix in groups if suffix) > 1:
        raise Invalid(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    required, forbidden = _root(request)
    limit = request.args("limit")
    return Ask(
        groups=groups,
        limit=int(limit[0]) if limit else None,
        isolate=policy == "isolate",
        root_required=required,
        root_forbidden=forbidden,
        same_subtree=subtrees,
        trees=request.version >= (1, 29),
    )


def _group_keys(request: Request) -> list[tuple[str, str]]:
    """The parameters that belong to groups, as (kind, suffix). Raises Invalid for parameters that nobody knows."""
    version = request.version
    kinds = ["resources"]
    kinds += [
        kind
        for kind, since in (("required", (1, 17)), ("member_of", (1, 21)), ("in_tree", (1, 31)))
        if version >= since
    ]
    suffix = _NAMED if version >= (1, 33) else _NUMBERED if version >= (1, 25) else r"(?!)"
    pattern = re.compile(rf"({'|'.join(kinds)})({suffix})?\Z")
    wide = {
        name
        for name, since in (
            ("limit", (1, 16)), ("group_policy", (1, 25)), ("root_required", (1, 35)), ("same_subtree", (1, 36)),
        )
        if version >= since
    }  # fmt: skip
    found = []
    for name, _ in request.query:
        match = pattern.match(name)
        if match:
            found.append((match[1], match[2] or ""))
        elif name not in wide:
            raise Invalid(
                f"Invalid query string parameters: additional properties are not allowed ({name!r} was unexpected)"
            )
    if version < (1, 25) and ("resources", "") not in found:
        raise Invalid("Invalid query string parameters: 'resources' is a required property")
    return found


def _check_limit(request: Request) -> None:
    for value in request.args("limit"):
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise Invalid(f"Invalid query string parameters: limit {value!r} is not a whole number above 0.")
    for value in request.args("group_policy"):
        if value not in ("none", "isolate"):
            raise Invalid(
                f"Invalid query string parameters: group_policy {value!r} is neither none nor isolate."
            )


def _group(request: Request, suffix: str) -> Group:
    resources = request.arg(f"resources{suffix}")
    required, forbidden = search.traits(request, f"required{suffix}")
    member_of, not_member_of = search.member_of(request, suffix)
    in_tree = request.arg(f"in_tree{suffix}")
    return Group(
        resources=search.resources(resources) if resources is not None else {},
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        not_member_of=not_member_of,
        in_tree=search.uuid(in_tree, "in_tree") if in_tree is not None else None,
    )


def _check_orphans(groups: dict[str, Group]) -> None:
    if not groups:
        raise Invalid("At least one request group (`resources` or `resources{$S}`) is required.")
    for suffix, group in groups.items():
        if group.resources:
            continue
        if group.required:
            raise Invalid(
                f"All traits parameters must be associated with resources. Found required{suffix} alone."
            )
        if group.member_of or group.not_member_of:
            raise Invalid(
                f"All member_of parameters must be associated with resources. Found member_of{suffix} alone."
            )
        raise Invalid(f"All request groups must specify resources; the group {suffix!r} does not.")


def _check_subtrees(groups: dict[str, Group], subtrees: list[frozenset[str]]) -> None:
    """Since 1.36 a group may ask for no resources, if it is tied to others by same_subtree."""
    empty = [suffix for suffix, group in groups.items() if not group.resources]
    tied = frozenset(suffix for some in subtrees for suffix in some)
    if len(empty) == len(groups):
        raise Invalid(
            "There must be at least one resources or resources[$S] parameter.", code=search.MISSING_VALUE
        )
    loose = [suffix for suffix in empty if suffix not in tied]
    if loose:
        raise Invalid(
            f"Groups without resources must be named in `same_subtree`: {', '.join(map(repr, loose))} are not.",
            code=search.BAD_VALUE,
        )
    unknown = sorted(tied - groups.keys())
    if unknown:
        raise Invalid(
            f"Real suffixes should be specified in `same_subtree`: there are no groups {', '.join(unknown)}.",
            code=search.BAD_VALUE,
        )


def _check_conflicts(groups: dict[str, Group]) -> None:
    for suffix, group in groups.items():
        for some in group.required:
            if some <= group.forbidden:
                raise Invalid(
                    "Conflicting required and forbidden traits found in the following traits keys: "
                    f"required{suffix}: ({', '.join(sorted(some))})"
                )


def _subtrees(request: Request) -> list[frozenset[str]]:
    found = []
    for value in request.args("same_subtree"):
        suffixes = frozenset(part.strip() for part in value.split(","))
        if "" in suffixes:
            raise Invalid(
                "Empty string (unsuffixed group) can not be specified in `same_subtree`",
                code=search.BAD_VALUE,
            )
        found.append(suffixes)
    return found


def _root(request: Request) -> tuple[frozenset[str], frozenset[str]]:
    values = request.args("root_required")
    if not values:
        return frozenset(), frozenset()
    if len(values) > 1:
        raise Invalid(
            "Query parameter 'root_required' may be specified only once.", code=search.DUPLICATE_KEY
        )
    required, forbidden = search.flat_traits(values[0], forbid=True)
    conflicts = sorted(frozenset(required) & frozenset(forbidden))
    if conflicts:
        raise Invalid(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}",
            code=search.BAD_VALUE,
        )
    return frozenset(required), frozenset(forbidden)


def _requests(request: Request, found: Iterable[Candidate]) -> list[dict[str, Any]]:
    bodies = []
    for candidate in found:
        body: dict[str, Any] = {
            "allocations": {key: {"resources": taken} for key, taken in candidate.taken.items()}
        }
        if request.version >= (1, 34):
            body["mappings"] = {suffix: sorted(keys) for suffix, keys in candidate.mappings.items()}
        bodies.append(body)
    return bodies


def _old_requests(request: Request, found: Iterable[Candidate]) -> list[dict[str, Any]]:
    return [
        {
            "allocations": [
                {"resource_provider": {"uuid": key}, "resources": taken}
                for key, taken in candidate.taken.items()
            ]
        }
        for candidate in found
    ]


def _summary(request: Request, world: World, key: str, ask: Ask) -> dict[str, Any]:
    asked = {name for group in ask.groups.values() for name in group.resources}
    used = world.used.get(key, {})
    body: dict[str, Any] = {
        "resources": {
            name: {"capacity": line.capacity, "used": used.get(name, 0)}
            for name, line in world.lines.get(key, {}).items()
            if request.version >= (1, 27) or name in asked
        }
    }
    if request.version >= (1, 17):
        body["traits"] = sorted(world.traits.get(key, ()))
    if request.version >= (1, 29):
        body["parent_provider_uuid"] = world.providers[key].parent_id
        body["root_provider_uuid"] = world.providers[key].root_id
    return body


ROUTES = (
    Route(
        "GET", "/allocation_candidates", index, "placement:allocation_candidates:list", CHECK, since=(1, 10)
    ),
)  # fmt: skip
