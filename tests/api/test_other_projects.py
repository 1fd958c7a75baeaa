"""Another project's things are as if they were not there: on every route that takes an id, taken from the tables.

What a stranger asks for by an id of somebody else must be answered exactly as an id that nobody has, and must
change nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from tests.bodies import BODIES, CREATES
from tests.cloud import TestCloud, running_cloud, until
from tests.leftovers import difference, look
from tests.routes import filled, holes, key, lines, members_may, parameters, path_of, version_of
from tests.tenants import COMPUTE, Tenant, furnish

from cumulet.api.asgi import Area, Route
from cumulet.app import AREAS
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

#: What a stranger may be told: that it is not allowed, not there, or not there any more for anybody.
REFUSALS = {403, 404, 410}
#: Lines that answer everybody alike, with the reason. The answer must still be the same for every id.
OPEN = {
    "compute GET /v2.1/os-quota-sets/{project}/defaults": "the defaults are the same for all",
    "identity POST /v3/users/{user_id}/password": "needs no token, but the old password: 401",
}
#: Lines by which projects give each other things, with what is told.
OFFERED = {
    "volume POST /v3/volume-transfers/{transfer_id}/accept": "whoever was told the id is told that the key is wrong",
    "volume POST /v3/os-volume-transfer/{transfer_id}/accept": "the same",
}
_REQUEST = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Stage:
    """Two tenants: ``theirs`` is reached for, ``mine`` reaches."""

    def __init__(self, cloud: TestCloud, directory: Path, theirs: Tenant, mine: Tenant) -> None:
        self.cloud = cloud
        self.directory = directory
        self.theirs = theirs
        self.mine = mine
        #: For each thing an id of the same form that nobody has.
        self.absent = {name: _like(cloud, id) for name, id in theirs.things.items()}

    async def ask(self, area: Area, route: Route, values: list[str], body: Any) -> httpx2.Response:
        more: dict[str, Any] = {}
        if isinstance(body, bytes):
            more = {"content": body, "headers": {"Content-Type": "application/octet-stream"}}
        elif isinstance(body, list):
            more = {
                "json": body,
                "headers": {"Content-Type": "application/openstack-images-v2.1-json-patch"},
            }
        elif body is not None:
            more = {"json": body}
        return await self.cloud.request(
            route.method,
            path_of(area, route, values),
            as_=self.mine.who,
            version=version_of(area, route),
            **more,
        )

    def told(self, answer: httpx2.Response) -> tuple[int, str]:
        """What an answer tells: status and text, without the ids that were asked for."""
        text = _REQUEST.sub("req", answer.text)
        for name in self.theirs.things:
            for id in (self.absent[name], self.theirs.things[name]):
                text = text.replace(id, name)
        return answer.status_code, text

    async def settle(self) -> None:
        def busy(tx: Any) -> bool:
            return bool(
                tx.one("select 1 from holders where due <= :now", now=tx.now)
                or tx.one("select 1 from claims where not wanted or seen <> 'present' or acted < revision")
            )

        async def rests() -> bool:
            return not await self.cloud.db.read(busy)

        await until(rests)

    async def look(self) -> Any:
        await self.settle()
        return await asyncio.to_thread(look, self.cloud.db, self.directory)


def _like(cloud: TestCloud, id: str) -> str:
    bare = id.removeprefix("req-")
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bare):
        return id[: -len(bare)] + cloud.chance.uuid()
    if re.fullmatch(r"[0-9a-f]{32}", id):
        return cloud.chance.uuid().replace("-", "")
    if re.fullmatch(r"\d+(\.\d+){3}", id):
        return ".".join(["198", "51", *id.split(".")[2:]])
    return f"absent-{id}"


@pytest.fixture(scope="module")
async def stage(shared_db: Database) -> AsyncIterator[Stage]:
    with TemporaryDirectory(prefix="c-") as name:
        async with running_cloud(shared_db, Path(name)) as cloud:
            yield Stage(cloud, Path(name), await furnish(cloud, "demo", 1), await furnish(cloud, "other", 2))


def needs_a_body(area: Area, route: Route) -> bool:
    """True if a member gets beyond the policy of the line, so that only a valid body asks for the thing."""
    return route.method in ("POST", "PUT", "PATCH") and (not route.rule or members_may(route.rule))


def body_for(area: Area, route: Route, fill: Callable[[str], str]) -> Any:
    """The body of a line. Fails for one that must have a valid body and has none in the table."""
    name = key(area, route)
    if name in BODIES:
        return filled(BODIES[name], fill)
    assert not needs_a_body(area, route), f"{name}: tests/bodies.py knows no body"
    return {route.action: None} if route.action else {} if route.method in ("POST", "PUT", "PATCH") else None


def choices(found: list[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Whose each parameter is: every mixture in which one at least is theirs."""
    options = [("mine", "theirs") if kind == "owned" else ("",) for kind, _ in found]
    yield from (choice for choice in product(*options) if "theirs" in choice)


def values(stage: Stage, found: list[tuple[str, str]], choice: tuple[str, ...], *, absent: bool) -> list[str]:
    """What stands in the path. ``absent``: an id that nobody has for every one of theirs."""
    mine, theirs = stage.mine.things, stage.theirs.things
    chosen = []
    for (kind, value), whose in zip(found, choice, strict=True):
        if kind == "owned":
            chosen.append((mine if whose == "mine" else stage.absent if absent else theirs)[value])
        else:
            chosen.append(filled(value, (theirs if kind == "part" else mine).__getitem__))
    return chosen


@pytest.mark.parametrize("area", [area for area in AREAS if area.name != "root"], ids=lambda area: area.name)
async def test_every_route_that_takes_an_id(stage: Stage, area: Area) -> None:
    before = await stage.look()
    wrong: list[str] = []
    for other, route in lines():
        if other is not area or "{" not in route.path:
            continue
        name = key(area, route)
        found = parameters(area, route)
        body = body_for(area, route, stage.mine.things.__getitem__)
        if not any(kind == "owned" for kind, _ in found):
            # What belongs to no project can be looked at, perhaps, and is not changed by a member.
            answer = await stage.ask(
                area, route, values(stage, found, ("",) * len(found), absent=False), body
            )
            if answer.status_code >= 500 or (route.method != "GET" and answer.status_code < 400):
                wrong.append(f"{name}: {answer.status_code} {answer.text[:300]}")
        for choice in choices(found):
            one = await stage.ask(area, route, values(stage, found, choice, absent=False), body)
            none = await stage.ask(area, route, values(stage, found, choice, absent=True), body)
            if name in OFFERED:
                assert 400 <= one.status_code < 500
                continue
            if name not in OPEN and area.name != "agent" and one.status_code not in REFUSALS:
                wrong.append(f"{name} {choice}: {one.status_code} {one.text[:300]}")
            if stage.told(one) != stage.told(none):
                wrong.append(f"{name} {choice}: {stage.told(one)} is not {stage.told(none)}")
    assert not wrong, "\n".join(wrong)
    changed = difference(before, await stage.look())
    assert not changed, "\n".join(changed)


#: What everybody may name: it is nobody's own.
NOBODYS = {"public", "service_project", "reader", "group_type", "host", "service"}
#: Lines whose body may name something of another project, with the reason.
NAMED = {
    ("identity POST /v3/credentials", "project"): "a credential for a project gives no role in it",
    ("identity POST /v3/users/{user_id}/credentials/OS-EC2", "project"): "the same",
    ("image POST /v2/images/{image_id}/members", "project"): "an image is shared with others",
    ("network PUT /v2.0/rbac-policies/{id}", "project"): "a network is shared with others",
    (
        "network POST /v2.0/ports",
        "router",
    ): "a device is any text, but for another project's router, which is refused",
    (
        "volume POST /v3/volumes/{volume_id}/action os-attach",
        "server",
    ): "a server is any id to a client of its own",
}


def bodies() -> Iterator[tuple[Area, Route, Any]]:
    """All bodies that have ids in them, with their lines."""
    known = {key(area, route): (area, route) for area, route in lines()}
    for name in [*BODIES, *CREATES]:
        assert name in known, f"{name}: there is no such line"
    for name, (area, route) in known.items():
        for body in (*([BODIES[name]] if name in BODIES else []), *CREATES.get(name, ())):
            if holes(body) - NOBODYS:
                yield area, route, body


async def test_every_body_that_names_a_thing(stage: Stage) -> None:
    before = await stage.look()
    wrong: list[str] = []
    mine, theirs = stage.mine.things, stage.theirs.things
    for area, route, body in bodies():
        found = parameters(area, route)
        path = [mine[value] if kind == "owned" else value for kind, value in found]
        for hole in sorted(holes(body) - NOBODYS):
            if (key(area, route), hole) in NAMED:
                continue
            name = f"{key(area, route)} {body} {hole}"
            one = await stage.ask(area, route, path, filled(body, {**mine, hole: theirs[hole]}.__getitem__))
            none = await stage.ask(
                area, route, path, filled(body, {**mine, hole: stage.absent[hole]}.__getitem__)
            )
            if one.status_code < 400 or one.status_code >= 500:
                wrong.append(f"{name}: {one.status_code} {one.text[:300]}")
            if stage.told(one) != stage.told(none):
                wrong.append(f"{name}: {stage.told(one)} is not {stage.told(none)}")
    assert not wrong, "\n".join(wrong)
    changed = difference(before, await stage.look())
    assert not changed, "\n".join(changed)


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
async def test_servers_of_others_are_nowhere(stage: Stage, hint: str) -> None:
    """A hint must not tell where another project's server is: it is as if there were none."""
    told = []
    for id in (stage.theirs.things["server"], stage.absent["server"]):
        body = {
            "server": {
                "name": "x", "flavorRef": stage.mine.things["flavor"], "imageRef": stage.mine.things["image"],
                "networks": "none",
            },
            "os:scheduler_hints": {hint: [id]},
        }  # fmt: skip
        made = await stage.mine.ask("POST", COMPUTE, "servers", body)
        path = f"servers/{made['server']['id']}"

        async def ended(path: str = path) -> Any:
            server = (await stage.mine.ask("GET", COMPUTE, path))["server"]
            return server if server["status"] in ("ACTIVE", "ERROR") else None

        server = await until(ended)
        told.append((server["status"], server.get("fault", {}).get("message")))
        await stage.mine.ask("DELETE", COMPUTE, path)
    assert told[0] == told[1]
    assert told[0][0] == ("ERROR" if hint == "same_host" else "ACTIVE")
