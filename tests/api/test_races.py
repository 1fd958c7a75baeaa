"""Two requests at the same time for one thing: each is answered as if the other had come before or after it.

The pairs are taken from the route tables: whatever changes a thing, against its delete and against itself. Only
PostgreSQL runs transactions beside each other; SQLite has one writer, and shows what goes on between two transactions.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from tests.bodies import BODIES, CREATES, OPERATORS
from tests.cloud import TestCloud, running_cloud, until
from tests.leftovers import look
from tests.routes import OPERATED, filled, holes, key, lines, parameters, path_of, version_of
from tests.sim import laws
from tests.tenants import COMPUTE, IDENTITY, IMAGE, NETWORK, NEWEST, VOLUME, Tenant, furnish, operate

from cumulet.api.asgi import Area, Route
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

#: What is made for each pair: where, the noun, the body, and the status to wait for.
MAKERS: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    "network": (NETWORK, "networks", "network", {}, ""),
    "subnet": (NETWORK, "subnets", "subnet", {"network_id": "{its_network}", "ip_version": 4, "cidr": "10.77.0.0/24"}, ""),
    "pool": (NETWORK, "subnetpools", "subnetpool", {"name": "p", "prefixes": ["10.78.0.0/16"]}, ""),
    "port": (NETWORK, "ports", "port", {"network_id": "{network}"}, ""),
    "security_group": (NETWORK, "security-groups", "security_group", {"name": "g"}, ""),
    "router": (NETWORK, "routers", "router", {"external_gateway_info": {"network_id": "{public}"}}, ""),
    "floatingip": (NETWORK, "floatingips", "floatingip", {"floating_network_id": "{public}"}, ""),
    "trunk": (NETWORK, "trunks", "trunk", {"port_id": "{its_port}"}, ""),
    "volume": (VOLUME, "volumes", "volume", {"size": 1, "metadata": {"key": "v"}}, "available"),
    "snapshot": (VOLUME, "snapshots", "snapshot", {"volume_id": "{its_volume}", "metadata": {"key": "v"}}, "available"),
    "image": (IMAGE, "images", "", {"name": "i", "disk_format": "raw", "container_format": "bare", "tags": ["tag"]}, ""),
    "server": (
        COMPUTE, "servers", "server",
        {"name": "s", "flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none", "metadata": {"key": "v"}, "tags": ["tag"]},
        "ACTIVE",
    ),
    "server_group": (COMPUTE, "os-server-groups", "server_group", {"name": "g", "policy": "affinity"}, ""),
    "flavor": (COMPUTE, "flavors", "flavor", {"name": "f", "ram": 1, "vcpus": 1, "disk": 0}, ""),
    "aggregate": (COMPUTE, "os-aggregates", "aggregate", {"name": "a"}, ""),
    "type": (VOLUME, "types", "volume_type", {"name": "t", "os-volume-type-access:is_public": False}, ""),
    "qos": (VOLUME, "qos-specs", "qos_specs", {"name": "q"}, ""),
    "project": (IDENTITY, "projects", "project", {"name": "p"}, ""),
    "user": (IDENTITY, "users", "user", {"name": "u"}, ""),
    "group_of_users": (IDENTITY, "groups", "group", {"name": "g"}, ""),
    "role": (IDENTITY, "roles", "role", {"name": "r"}, ""),
    "domain": (IDENTITY, "domains", "domain", {"name": "d", "enabled": False}, ""),
    "region": (IDENTITY, "regions", "region", {}, ""),
    "identity_service": (IDENTITY, "services", "service", {"type": "x"}, ""),
}  # fmt: skip
#: Made by an administrator.
BY_OPERATOR = {
    "flavor", "aggregate", "type", "qos", "project", "user", "group_of_users", "role", "domain", "region",
    "identity_service",
}  # fmt: skip
#: Lines that wait for somebody who does not come here.
LEFT_OUT = ("os-unmanage", "/file", "/stage", "/import", "os-initialize_connection", "OS-EC2", "/password")


class Stage(Tenant):
    """A user of a running cloud, and the administrator."""

    async def new(self, thing: str) -> str:
        """A thing of its own, and what it is made of."""
        area, path, noun, body, status = MAKERS[thing]
        for hole, kind in (("its_network", "network"), ("its_port", "port"), ("its_volume", "volume")):
            if f"{{{hole}}}" in json.dumps(body):
                self.things[hole] = await self.new(kind)
        who = "admin" if thing in BY_OPERATOR else self.who
        body = filled(body, self.things.__getitem__)
        if noun and "name" in body and thing != "server":
            body = {**body, "name": f"{body['name']}{next(_numbers)}"}
        made = await self.ask("POST", area, path, {noun: body} if noun else body, as_=who)
        id = str((made[noun] if noun else made)["id"])
        if status:
            await self.shows(area, f"{path}/{id}", noun, status)
        return id

    async def send(
        self, area: Area, route: Route, things: dict[str, str], body: Any = None
    ) -> httpx2.Response:
        """A line's request about some things, with one of its bodies."""
        values = []
        segments = ["", *route.path.strip("/").split("/")]
        befores = [a for a, b in itertools.pairwise(segments) if b.startswith("{")]
        for (kind, value), before in zip(parameters(area, route), befores, strict=True):
            where = f"{area.name} {before}"
            if kind == "owned":
                values.append(things[value])
            else:
                values.append(
                    things[OPERATED[where]] if where in OPERATED else str(filled(value, things.__getitem__))
                )
        name = key(area, route)
        bodies = [
            *([BODIES[name]] if name in BODIES else []),
            *OPERATORS.get(name, ()),
            *CREATES.get(name, ()),
        ]
        more: dict[str, Any] = {}
        if body is None and bodies:
            body = bodies[0]
        if body is not None:
            more["json"] = filled(body, things.__getitem__)
            if area.name == "image" and route.method == "PATCH":
                more["headers"] = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
        elif route.action:
            more["json"] = {route.action: None}
        return await self.cloud.request(
            route.method, path_of(area, route, values), as_="admin", version=version_of(area, route), **more
        )


_numbers = itertools.count()


def rivals(thing: str) -> list[tuple[Area, Route]]:
    """All lines that change a thing of the kind."""
    found = []
    for area, route in lines():
        if (
            route.method == "GET"
            or route.method == "HEAD"
            or any(word in key(area, route) for word in LEFT_OUT)
        ):
            continue
        if "os-volumes_boot" in route.path or "removed" in route.rule or area.name in ("agent", "cumulet"):
            continue
        try:
            asked = parameters(area, route)
        except KeyError:
            continue
        segments = ["", *route.path.strip("/").split("/")]
        befores = [a for a, b in itertools.pairwise(segments) if b.startswith("{")]
        names = [
            value if kind == "owned" else OPERATED.get(f"{area.name} {before}", "")
            for (kind, value), before in zip(asked, befores, strict=True)
        ]
        if names and names[0] == thing and all(name in ("", thing) for name in names):
            found.append((area, route))
    return found


def deletes(thing: str) -> tuple[Area, Route]:
    """The line that removes a thing of the kind."""
    area, path, *_ = MAKERS[thing]
    for other, route in rivals(thing):
        last = route.path.strip("/").split("/")[-2:]
        if route.method == "DELETE" and area.startswith(other.prefix) and last[0] == path and "{" in last[1]:
            return other, route
    raise AssertionError(f"nothing deletes a {thing}")


@pytest.fixture(scope="module")
async def stage(shared_db: Database) -> AsyncIterator[Stage]:
    with TemporaryDirectory(prefix="c-") as name:
        async with running_cloud(shared_db, Path(name)) as cloud:
            tenant = await furnish(cloud, "demo", 1)
            await operate(tenant)
            made = Stage(cloud, "demo", 1)
            made.things = tenant.things
            await _unlimited(made, cloud)
            yield made


async def _unlimited(made: Stage, cloud: TestCloud) -> None:
    project = cloud.project("demo")
    much = dict.fromkeys(("router", "network", "subnet", "port", "floatingip", "security_group"), -1)
    await made.ask("PUT", NETWORK, f"quotas/{project}", {"quota": much}, as_="admin")
    much = dict.fromkeys(("volumes", "gigabytes", "snapshots"), -1)
    await made.ask("PUT", VOLUME, f"os-quota-sets/{project}", {"quota_set": much}, as_="admin")
    much = dict.fromkeys(("instances", "cores", "ram", "server_groups"), -1)
    await made.ask("PUT", COMPUTE, f"os-quota-sets/{project}", {"quota_set": much}, as_="admin")


async def rest(stage: Stage) -> None:
    def busy(tx: Any) -> bool:
        return bool(
            tx.one("select 1 from holders where due is not null")
            or tx.one("select 1 from claims where not wanted or seen <> 'present' or acted < revision")
        )

    async def rests() -> bool:
        return not await stage.cloud.db.read(busy)

    await until(rests)


@pytest.mark.parametrize("thing", list(MAKERS))
async def test_pairs(stage: Stage, thing: str) -> None:
    """The delete beside each change, and each change beside itself."""
    gone = deletes(thing)
    found = rivals(thing)
    if len(found) > 25:
        found = [*found[:: len(found) // 20 + 1], gone]
    wrong = []
    ids = []
    for rival in found:
        for pair in {id(gone[1]): (gone, rival), id(rival[1]): (rival, rival)}.values():
            made = {**stage.things, thing: await stage.new(thing)}
            ids.append(made[thing])
            answers = await asyncio.gather(*(stage.send(area, route, made) for area, route in pair))
            told = [
                f"{key(*line)} {answer.status_code} {answer.text[:200]}"
                for line, answer in zip(pair, answers, strict=True)
            ]
            if any(answer.status_code >= 500 for answer in answers):
                wrong.append(" ‖ ".join(told))
            await stage.send(*gone, made)
    wrong += await left_of(stage, thing, ids)
    assert not wrong, "\n".join(wrong)


async def left_of(stage: Stage, thing: str, ids: list[str]) -> list[str]:
    """What still names those of the things that are gone."""
    await rest(stage)
    await stage.cloud.db.read(laws.check)
    area, path, *_ = MAKERS[thing]
    version = NEWEST.get(area, "")
    gone = [
        id
        for id in ids
        if (await stage.cloud.get(f"{area}/{path}/{id}", as_="admin", version=version)).status_code == 404
    ]
    there = await asyncio.to_thread(look, stage.cloud.db, Path("/nowhere"))
    return [
        f"{id} is gone: {name} {row}"
        for name, rows in there.items()
        if name not in NAMED
        for row in rows
        for id in gone
        # Small numbers are anything's. Whose server a client attaches a volume to by itself, only the client knows.
        if len(id) >= 32
        and id in row
        and f'"target_project": "{id}"' not in row
        and '"by_client": true' not in row
    ]


#: Tables that may name what is gone, with the reason.
NAMED = {
    "servers": "it keeps a copy of its flavor, and what it was asked for",
    "block_devices": "what a disk was made of",
    "volumes": "what it was made of",
    "ports": "the device of a user's port is any text",
    "volume_backups": "a backup stays when its volume goes",
    "image_members": "members are any text",
    "claims": "what it was made from",
    "image_properties": "the server that an image was made of",
    "quotas": "services keep a project's limits, as upstream",
    "volume_default_types": "the same",
}


#: What a body calls a thing of a kind of MAKERS.
NAMES = {
    "loose_port": "port", "loose_group": "security_group", "attached_volume": "volume", "fip_port": "port",
    **{thing: thing for thing in MAKERS},
}  # fmt: skip


def uses() -> list[tuple[Area, Route, Any, str]]:
    """Every body that makes or joins something of a thing, and what it calls the thing."""
    known = {key(area, route): (area, route) for area, route in lines()}
    found = []
    for name, (area, route) in known.items():
        if any(word in name for word in LEFT_OUT) or "os-volumes_boot" in name or area.name == "agent":
            continue
        for body in (*([BODIES[name]] if name in BODIES else []), *CREATES.get(name, ())):
            found += [(area, route, body, hole) for hole in sorted(holes(body)) if hole in NAMES]
    return found


async def test_use_beside_a_delete(stage: Stage) -> None:
    """Whatever is made of something, or joined to it, while that is deleted."""
    wrong = []
    ids: dict[str, list[str]] = {}
    for area, route, body, hole in uses():
        thing = NAMES[hole]
        gone = deletes(thing)
        made = {**stage.things, hole: await stage.new(thing)}
        ids.setdefault(thing, []).append(made[hole])
        answers = await asyncio.gather(
            stage.send(area, route, made, body), stage.send(*gone, {**made, thing: made[hole]})
        )
        if any(answer.status_code >= 500 for answer in answers):
            told = [f"{answer.status_code} {answer.text[:200]}" for answer in answers]
            wrong.append(f"{key(area, route)} {body} {hole} ‖ DELETE: {' ‖ '.join(told)}")
    for thing, some in ids.items():
        wrong += await left_of(stage, thing, some)
    assert not wrong, "\n".join(wrong)
