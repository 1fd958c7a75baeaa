"""What a version of an API changed, as tables, and how to ask for it.

A table of shapes tells which fields a thing shows at the least version, and which came and went since; ``wrong_shapes``
asks at every version at which one did, at the one before, at the least and at the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cumulet.api.asgi import Area
from tests.cloud import TestCloud

#: Minor version → (fields that came, fields that went).
Changes = Mapping[int, tuple[str, str]]


class Shape(NamedTuple):
    """A thing that is shown: to whom, where, by which keys of the answer, with which fields at the least version."""

    who: str
    path: str
    way: str
    base: str
    changes: Changes = {}
    #: The first version at which it is there.
    first: int = 0


def at(area: Area, minor: int) -> str:
    """The header's value for a minor version."""
    assert area.versions is not None
    return f"{area.versions.service} {area.versions.minimum[0]}.{minor}"


async def wrong_shapes(
    cloud: TestCloud, area: Area, root: str, shapes: Mapping[str, Shape], things: Mapping[str, str]
) -> list[str]:
    """A line for each shape that is not as the table tells, at one of the versions."""
    assert area.versions is not None
    least, newest = area.versions.minimum[1], area.versions.maximum[1]
    wrong = []
    for what, shape in shapes.items():
        changed = {first for since in shape.changes for first in (since - 1, since)}
        first = max(shape.first, least)
        for minor in sorted({first, newest, *(minor for minor in changed if minor >= first)}):
            url = f"{root}{shape.path.format_map(things)}"
            answer = await cloud.get(url, as_=shape.who, version=at(area, minor))
            assert answer.status_code == 200, (what, minor, answer.text)
            shown, expected = set(_found(answer.json(), shape.way.format_map(things))), _fields(minor, shape)
            if shown != expected:
                wrong.append(f"{what} at {minor}: more {shown - expected}, less {expected - shown}")
        if first > least:
            answer = await cloud.get(url, as_=shape.who, version=at(area, first - 1))
            if answer.status_code != 404:
                wrong.append(f"{what} is there before {first}: {answer.status_code}")
    return wrong


def _fields(minor: int, shape: Shape) -> set[str]:
    shown = set(shape.base.split())
    for since in sorted(shape.changes):
        if since <= minor:
            came, went = shape.changes[since]
            shown = (shown - set(went.split())) | set(came.split())
    return shown


def _found(body: Any, way: str) -> Any:
    """The thing in an answer; nothing, if the way to it ends."""
    for step in way.split():
        if isinstance(body, list):
            body = body[int(step)] if body else {}
        else:
            body = body.get(step, {})
    return body


#: (method, path, action) → the first minor version, and the last; 0 for none.
Routes = Mapping[tuple[str, str, str], tuple[int, int]]


async def wrong_routes(cloud: TestCloud, area: Area, root: str, routes: Routes) -> list[str]:
    """A line for each route that is there when it should not, or the reverse; those that no version has are left out.

    What is asked for does not exist, so that it is told apart whether the route or the thing is not there.
    """
    assert area.versions is not None
    least = area.versions.minimum[1]
    wrong = []
    for (method, path, action), (first, last) in routes.items():
        whole = f"{area.project_root}/{path}"
        if not any((r.method, r.action) == (method, action) and fits(whole, r.path) for r in area.routes):
            continue
        body = {"json": {action: {}} if action else {}} if method in ("POST", "PUT", "PATCH") else {}
        for minor in edges(first, last, least):
            answer = await cloud.request(method, root + path, as_="admin", version=at(area, minor), **body)
            gone = answer.status_code == 404 and "The resource could not be found." in answer.text
            if gone is within(minor, first, last):
                wrong.append(f"{method} {path} {action} at {minor}: {answer.status_code} {answer.text[:200]}")
    return wrong


def edges(first: int, last: int, least: int) -> list[int]:
    """The versions around the first and the last."""
    around = {first, first - 1, last, last + 1} if last else {first, first - 1}
    return sorted(minor for minor in around if minor >= least)


def within(minor: int, first: int, last: int) -> bool:
    return first <= minor and (not last or minor <= last)


def fits(path: str, pattern: str) -> bool:
    mine, theirs = path.split("/"), pattern.split("/")
    return len(mine) == len(theirs) and all(
        b.startswith("{") or a == b for a, b in zip(mine, theirs, strict=True)
    )
