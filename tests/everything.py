"""Every GET of a cloud: what it answers on each route of its tables, for everything that its lists show.

``answers(ask)`` asks, ``difference(before, after)`` tells what is not as it was. Where a path has a parameter, the values
are those that the list before it shows: ``/v3/volumes/{id}`` is asked for each id of ``/v3/volumes``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from cumulet.api.asgi import LAST, Area, Route
from cumulet.api.compute.gone import RULE as GONE
from cumulet.api.microversion import text
from cumulet.app import AREAS
from cumulet.compatibility import SERVICES

#: Path and headers → status and body.
Ask = Callable[[str, Mapping[str, str]], tuple[int, bytes]]
#: What shows the things of all projects, by area and path.
ALL: Mapping[str, Mapping[str, str]] = {
    "compute": {
        "/v2.1/servers": "all_tenants=1",
        "/v2.1/servers/detail": "all_tenants=1",
        "/v2.1/os-server-groups": "all_projects=1",
    },
    "volume": {
        f"/v3/{noun}{more}": "all_tenants=1"
        for noun in (
            "volumes",
            "snapshots",
            "backups",
            "groups",
            "group_snapshots",
            "volume-transfers",
            "attachments",
        )
        for more in ("", "/detail", "/summary")
    },
    # Without it the GET makes what is not there.
    "network": {"/v2.0/auto-allocated-topology/{id}": "fields=dry-run"},
}
#: Where the values of a parameter stand, if not in the list before it; by area and the literal before it.
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("placement", "allocations"): "/compute/v2.1/servers?all_tenants=1",
    ("volume", "default-types"): "/identity/v3/projects",
    ("volume", "os-quota-sets"): "/identity/v3/projects",
    ("compute", "os-quota-sets"): "/identity/v3/projects",
    ("compute", "os-simple-tenant-usage"): "/identity/v3/projects",
    ("network", "quotas"): "/identity/v3/projects",
    ("network", "auto-allocated-topology"): "/identity/v3/projects",
    ("volume", "capabilities"): "/volume/v3/os-hosts",
    ("volume", "os-volume-transfer"): "/volume/v3/volume-transfers?all_tenants=1",
}
#: The names under which things of lists are known, the best first.
_NAMES = (
    "id",
    "uuid",
    "request_id",
    "consumer_uuid",
    "host_name",
    "zoneName",
    "namespace",
    "member_id",
    "alias",
    "name",
)
#: Fields that tell of the present, not of what is kept; "NOUN FIELD": only below that noun.
PRESENT = frozenset({
    "os-services updated_at", "os-hosts last-update", "heartbeat_timestamp", "os-availability-zone updated_at", "os-hypervisors uptime",
    "os-hypervisors host_time", "os-hypervisors load_average", "os-simple-tenant-usage start",
    "os-simple-tenant-usage stop", "total_hours", "total_memory_mb_usage", "total_vcpus_usage",
    "total_local_gb_usage", "os-simple-tenant-usage hours", "os-simple-tenant-usage uptime",
})  # fmt: skip


def answers(ask: Ask, most: int = 25) -> dict[str, Any]:
    """Every GET of the services' tables: "compute /v2.1/servers/…" → (status, body); of each list the first ``most``."""
    lists: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for area in AREAS:
        if area.name in SERVICES:
            for route in area.routes:
                if route.method == "GET" and route.rule != GONE:
                    for path in _paths(area, route.path, ask, lists, most):
                        found[f"{area.name} {path}"] = _answer(area, route, path, ask)
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each answer that is not as it was."""
    lines = [f"{path}: no longer asked" for path in before if path not in after]
    lines += [f"{path}: new" for path in after if path not in before]
    for path in before:
        if path in after and before[path] != after[path]:
            lines.append(f"{path}: {_short(before[path])} -> {_short(after[path])}")
    return lines


def routes() -> set[tuple[str, str]]:
    """What is asked: (area, path)."""
    return {
        (area.name, route.path)
        for area in AREAS
        for route in area.routes
        if route.method == "GET" and route.rule != GONE and area.name in SERVICES
    }


def unanswered(found: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The routes that never answered with a thing."""
    left = routes()
    shown = [name.split()[:2] for name, (status, _) in found.items() if status < 400]
    for area in AREAS:
        patterns = {path: _pattern(path) for name, path in left if name == area.name}
        for where, path in shown:
            if where == area.name:
                left -= {(where, route) for route, pattern in patterns.items() if pattern.fullmatch(path)}
    return left


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path)).rstrip("/") + "/?")


def _answer(area: Area, route: Route, path: str, ask: Ask) -> tuple[int, Any]:
    query = ALL.get(area.name, {}).get(route.path)
    status, body = ask(area.prefix + path + (f"?{query}" if query else ""), _headers(area, route))
    if status >= 400:
        return status, None  # the words name the request
    if route.streams:
        return status, hashlib.sha256(body).hexdigest()
    segments = route.path.split("/")
    here = {
        field for name in PRESENT for noun, _, field in [name.rpartition(" ")] if not noun or noun in segments
    }
    return status, _kept(_decoded(body), here)


def _headers(area: Area, route: Route) -> dict[str, str]:
    """The newest version at which the route answers."""
    if area.versions is None:
        return {}
    version = area.versions.maximum if route.until == LAST else min(route.until, area.versions.maximum)
    return {"OpenStack-API-Version": f"{area.versions.service} {text(version)}"}


def _paths(area: Area, pattern: str, ask: Ask, lists: dict[str, list[str]], most: int) -> Iterator[str]:
    """The paths of a route, its parameters filled with what there is."""
    done = [""]
    for segment in pattern.strip("/").split("/"):
        if not segment.startswith("{"):
            done = [f"{path}/{segment}" for path in done]
        else:
            done = [f"{path}/{value}" for path in done for value in _values(area, path, ask, lists)[:most]]
    yield from done


def _values(area: Area, path: str, ask: Ask, lists: dict[str, list[str]]) -> list[str]:
    """What can stand behind a path: what its list shows, or else the area's list of that name."""
    literal = path.rsplit("/", 1)[1]
    root = "/".join(path.split("/")[:2])
    place = ELSEWHERE.get((area.name, literal), "")
    for where in [place] if place else [area.prefix + path, f"{area.prefix}{root}/{literal}"]:
        if where not in lists:
            query = ALL.get(area.name, {}).get(where.removeprefix(area.prefix))
            least = {"OpenStack-API-Version": f"{area.versions.service} latest"} if area.versions else {}
            status, body = ask(f"{where}?{query}" if query else where, least)
            lists[where] = list(_members(_decoded(body))) if status == 200 else []
        if lists[where]:
            return lists[where]
    return []


def _members(body: Any) -> Iterator[str]:
    """The names of what a list shows: {"volumes": [{"id": …}]}, {"tags": ["a"]}, {"metadata": {"a": …}}."""
    if not isinstance(body, dict):
        return
    for key, value in body.items():
        if isinstance(value, list) and "links" not in key:
            for item in value:
                inner = next(iter(item.values())) if isinstance(item, dict) and len(item) == 1 else item
                item = inner if isinstance(inner, dict) else item
                if isinstance(item, str):
                    yield item
                elif isinstance(item, dict):
                    name = next((item[name] for name in _NAMES if name in item), None)
                    if isinstance(name, str | int):
                        yield str(name)
            return
        if isinstance(value, dict) and "links" not in key:
            yield from value
            return


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def _kept(body: Any, present: Container[str]) -> Any:
    """A body without what tells of the present."""
    if isinstance(body, dict):
        return {key: _kept(value, present) for key, value in body.items() if key not in present}
    if isinstance(body, list):
        return [_kept(value, present) for value in body]
    return body


def _short(answer: Any) -> str:
    return json.dumps(answer, default=str)[:600]
