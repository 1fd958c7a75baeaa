"""What the cloud serves, and where: the services of a new cloud, and the catalogue in a token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx

#: Stands for the address that the client used, so that a cloud has the same catalogue under all its names.
BASE = "$(base)s"


class Served(msgspec.Struct, frozen=True):
    """A service of a new cloud."""

    type: str
    name: str
    path: str
    description: str


SERVED: tuple[Served, ...] = (
    Served("identity", "keystone", "/identity", "Identity service"),
    Served("image", "glance", "/image", "Image service"),
    Served("compute", "nova", "/compute/v2.1", "Compute service"),
    Served("placement", "placement", "/placement", "Placement service"),
    Served("network", "neutron", "/network", "Network service"),
    Served("block-storage", "cinder", "/volume/v3", "Block storage service"),
    # Clients of some age look for this type only.
    Served("volumev3", "cinderv3", "/volume/v3", "Block storage service, under its older type"),
)
INTERFACES = ("public", "internal", "admin")


def service_types(prefix: str) -> frozenset[str]:
    """The types of the services whose paths begin with a segment."""
    return frozenset(s.type for s in SERVED if s.path.split("/")[1] == prefix)


_VARIABLE = re.compile(r"[$%]\(([a-z_]+)\)s")


def address(url: str, base: str, ids: Mapping[str, str | None]) -> str | None:
    """An endpoint's address for one client; None if it needs an id that the client's scope does not give."""
    missing = False

    def replace(match: re.Match[str]) -> str:
        nonlocal missing
        value = base if match[1] == "base" else ids.get(match[1])
        missing = missing or value is None
        return value or ""

    found = _VARIABLE.sub(replace, url)
    return None if missing else found


def variables(url: str) -> list[str]:
    """What an endpoint's address refers to."""
    return _VARIABLE.findall(url)


def catalogue(tx: Tx, base: str, ids: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """The catalogue of a scope: every enabled service with its enabled endpoints.

    A project with endpoints or endpoint groups of its own sees only those (API reference, OS-EP-FILTER).
    """
    services: dict[str, dict[str, Any]] = {
        row["id"]: {"endpoints": [], "id": row["id"], "type": row["type"], "name": row["name"] or ""}
        for row in tx.all("select id, type, name from services where enabled order by type, id")
    }
    endpoints = tx.all(
        "select id, service_id, region_id, interface, url from endpoints where enabled order by interface, id"
    )
    project = ids.get("project_id")
    chosen = chosen_endpoints(tx, project) if project else frozenset()
    for endpoint in endpoints:
        service = services.get(endpoint["service_id"])
        if service is None or (chosen and endpoint["id"] not in chosen):
            continue
        url = address(endpoint["url"], base, ids)
        if url is not None:
            service["endpoints"].append(
                {
                    "id": endpoint["id"],
                    "interface": endpoint["interface"],
                    "region_id": endpoint["region_id"],
                    "url": url,
                    "region": endpoint["region_id"],
                }
            )
    if chosen:
        return [service for service in services.values() if service["endpoints"]]
    return list(services.values())


def chosen_endpoints(tx: Tx, project_id: str) -> frozenset[str]:
    """Ids of the endpoints that a project was given, by themselves or in groups; none given means all."""
    found = set(tx.values("select endpoint_id from project_endpoints where project_id = :id", id=project_id))
    groups = tx.all(
        "select g.filters from endpoint_groups g join project_endpoint_groups p on p.endpoint_group_id = g.id"
        " where p.project_id = :id",
        id=project_id,
    )
    for group in groups:
        found.update(row["id"] for row in matching(tx, group["filters"]))
    return frozenset(found)


def matching(tx: Tx, filters: Mapping[str, Any]) -> list[Row]:
    """The endpoints that an endpoint group's filters select."""
    names = ("service_id", "region_id", "interface", "enabled")
    rows = tx.all("select * from endpoints order by id")
    return [row for row in rows if all(row[name] == filters[name] for name in names if name in filters)]
