"""The table of ``docs/compatibility.md``: which of upstream's routes are served, and at which versions.

What upstream has is in ``upstream-routes.txt`` beside this file, read from the services' API references; what is served
is in the areas' route tables.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from cumulet.api.asgi import FIRST, LAST, Area, Route
from cumulet.api.compute import gone
from cumulet.api.microversion import text
from cumulet.app import AREAS

#: The services, as their sections are called.
SERVICES = {
    "identity": "Identity v3",
    "image": "Image v2",
    "compute": "Compute v2.1",
    "placement": "Placement",
    "network": "Network v2.0",
    "volume": "Block Storage v3",
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: A path whose parameters have no names, and the key of an action's body.
Place = tuple[str, str]


def table() -> str:
    """All services' tables, as Markdown."""
    areas = {area.name: area for area in AREAS}
    asked = upstream()
    summary = ["| service | versions | routes of the reference | served |", "| --- | --- | --- | --- |"]
    sections = []
    for name, title in SERVICES.items():
        area = areas[name]
        served = _served(area.routes)
        routes = asked[name]
        there = sum(method in served.get(_place(path, action), ()) for method, path, action in routes)
        summary.append(f"| {title} | {_range(area)} | {len(routes)} | {there} |")
        sections += [f"## {title}", "", "| path | action | methods | versions | status |"]
        sections += ["| --- | --- | --- | --- | --- |", *_lines(area, served, routes), ""]
    return "\n".join([*summary, "", *sections]).rstrip("\n") + "\n"


def upstream() -> dict[str, list[tuple[str, str, str]]]:
    """Per service what its API reference lists: (method, path, action)."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for line in Path(__file__).with_name("upstream-routes.txt").read_text().splitlines():
        if not line.startswith("#"):
            service, method, path, *action = line.split()
            found[service].append((method, path, action[0] if action else ""))
    return found


def _served(routes: Iterable[Route]) -> dict[Place, dict[str, list[Route]]]:
    """Per place and method the lines of the table; HEAD is served wherever GET is."""
    found: dict[Place, dict[str, list[Route]]] = defaultdict(lambda: defaultdict(list))
    for route in routes:
        found[_place(route.path, route.action)][route.method].append(route)
    for methods in found.values():
        if "GET" in methods:
            methods.setdefault("HEAD", methods["GET"])
    return found


def _place(path: str, action: str) -> Place:
    return re.sub(r"\{[^}]*\}", "{}", path).rstrip("/") or "/", action


def _lines(
    area: Area, served: dict[Place, dict[str, list[Route]]], routes: Sequence[tuple[str, str, str]]
) -> list[str]:
    """One line for all methods of a place that have one answer."""
    rows: dict[tuple[Place, str, str], list[str]] = defaultdict(list)
    names: dict[Place, str] = {}
    for route in area.routes:
        place = _place(route.path, route.action)
        names[place] = route.path
        status = "gone, as upstream" if route.rule == gone.RULE else "served"
        rows[place, _versions(area, route), status].append(route.method)
    for method, path, action in routes:
        place = _place(path, action)
        names.setdefault(place, path)
        if method not in served.get(place, ()):
            rows[place, "", "**not served**"].append(method)
    order = sorted(rows, key=lambda row: (names[row[0]], row[0][1], row[2] != "served", row[1]))
    return [
        f"| `{names[place]}` | {place[1]} | {' '.join(sorted(rows[row], key=_METHODS.index))} | {row[1]} | {row[2]} |"
        for row in order
        for place in (row[0],)
    ]


def _versions(area: Area, route: Route) -> str:
    """The versions at which a route answers; nothing if it does at all."""
    if area.versions is None or (
        route.since <= area.versions.minimum and route.until >= area.versions.maximum
    ):
        return ""
    first = max(route.since, area.versions.minimum) if route.since != FIRST else area.versions.minimum
    return f"{text(first)} - {text(route.until) if route.until != LAST else ''}".rstrip()


def _range(area: Area) -> str:
    if area.versions is None:
        return ""
    return f"{text(area.versions.minimum)} - {text(area.versions.maximum)}"
