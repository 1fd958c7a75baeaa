"""C32: what was deleted for later goes although its user has gone. Nova LP 1733736, 1734025."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database, Tx
from cumulet.reconcile import holders
from tests.case import COMPUTE, H1, VOLUME, Case, stage

pytestmark = pytest.mark.anyio

IDENTITY = "/identity/v3"
#: Seconds that a deleted server stays, far longer than the test: what passes of them is said, not waited for.
LATER = 3600.0


class User:
    """An ordinary member of the project who leaves."""

    def __init__(self, case: Case, id: str) -> None:
        self.case = case
        self.id = id
        self.token = ""

    async def call(self, method: str, path: str, *codes: int, **more: Any) -> Any:
        found = await self.case.call(method, path, *codes, token=self.token, **more)
        return found.json() if found.content else None

    async def leave(self) -> None:
        """The user is removed, and with that the token is worth nothing."""
        await self.case.call("DELETE", f"{IDENTITY}/users/{self.id}", 204, as_="admin")
        await self.call("GET", f"{COMPUTE}/servers", 401)


async def member(case: Case) -> User:
    password = "a password for a while"
    body = {"user": {"name": "leaver", "domain_id": "default", "password": password}}
    id = (await case.call("POST", f"{IDENTITY}/users", 201, as_="admin", json=body)).json()["user"]["id"]
    roles = (await case.get(f"{IDENTITY}/roles?name=member", as_="admin"))["roles"]
    project = case.cloud.project("demo")
    path = f"{IDENTITY}/projects/{project}/users/{id}/roles/{roles[0]['id']}"
    await case.call("PUT", path, 204, as_="admin")
    user = User(case, id)
    user.token = await case.cloud.login(id=id, password=password, scope={"project": {"id": project}})
    return user


async def its_time_is_over(case: Case, server: str) -> None:
    def pass_(tx: Tx) -> None:
        tx.update("servers", server, reclaim_at=tx.now)
        holders.later(tx, server)

    await case.db.write(pass_)


async def volume_is(case: Case, id: str, status: str) -> None:
    async def check() -> bool:
        return bool((await case.volume(id, as_="admin"))["status"] == status)

    await case.until(check, f"volume {id} to become {status}")


async def scene(case: Case) -> tuple[User, str, dict[str, Any], str, str]:
    """A user with a server that has a port, a volume that stays and one that goes with it."""
    user = await member(case)
    port = await case.make_port()
    stays, goes = await case.make_volume(), await case.make_volume()
    await case.settle()
    case.remember()
    body = {
        "name": "s", "flavorRef": case.flavor, "imageRef": case.image, "networks": [{"port": port["id"]}],
        "block_device_mapping_v2": case.devices(stays, doomed=[goes]),
    }  # fmt: skip
    made = await user.call("POST", f"{COMPUTE}/servers", 202, json={"server": body})
    server = str(made["server"]["id"])
    await case.server_is(server, "ACTIVE")
    return user, server, port, stays, goes


async def test_the_time_ends_when_nobody_is_there(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, reclaim_after=LATER) as case:
        usage = await case.usage()
        user, server, port, stays, goes = await scene(case)
        await user.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        # It holds all that it had, and can be restored.
        assert (await case.port(port["id"]))["device_id"] == server
        assert {one["volume_id"] for one in await case.attachments(server)} == {stays, goes}
        assert await case.allocated(server)
        await user.call("POST", f"{COMPUTE}/servers/{server}/action", 202, json={"restore": None})
        await case.server_is(server, "ACTIVE")
        await user.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        await user.leave()

        await its_time_is_over(case, server)
        await case.gone(server)
        await volume_is(case, stays, "available")
        await case.volume_gone(goes)
        free = await case.port(port["id"])
        assert (free["device_id"], free["binding:host_id"], free["status"]) == ("", "", "DOWN")
        assert await case.allocations(server) == {}
        assert case.things(H1) == []
        assert case.exports() == []
        await case.clean(goes, user.id)
        assert await case.usage() == usage


@pytest.mark.parametrize("step", ["guest.remove", "connection.remove", "export.remove", "volume.remove"])
async def test_what_fails_meanwhile_goes_later(db: Database, directory: Path, step: str) -> None:
    async with stage(db, directory, hosts=1, reclaim_after=LATER) as case:
        user, server, _, stays, goes = await scene(case)
        await user.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        await user.leave()
        rule = await case.fault(step, count=None)
        await its_time_is_over(case, server)
        await case.struck(rule)
        await case.release(rule)
        await case.gone(server)
        await volume_is(case, stays, "available")
        await case.volume_gone(goes)
        await case.clean(goes, user.id)


async def test_every_service_was_restarted_meanwhile(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, reclaim_after=LATER) as case:
        user, server, _, stays, goes = await scene(case)
        await user.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        await user.leave()
        await case.restart()
        assert (await case.server(server))["status"] == "SOFT_DELETED"
        await its_time_is_over(case, server)
        await case.gone(server)
        await volume_is(case, stays, "available")
        await case.volume_gone(goes)
        await case.clean(goes, user.id)


async def test_the_project_s_others_can_still_restore_it(db: Database, directory: Path) -> None:
    """It belongs to the project, not to who made it."""
    async with stage(db, directory, hosts=1, reclaim_after=LATER) as case:
        user, server, _, stays, goes = await scene(case)
        await user.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        await user.leave()
        await case.act(server, "restore")
        await case.server_is(server, "ACTIVE")
        await case.call("POST", f"{COMPUTE}/servers/{server}/action", 204, 202, json={"forceDelete": None})
        await case.gone(server)
        await case.call("DELETE", f"{VOLUME}/volumes/{stays}", 202)
        await case.volume_gone(stays)
        await case.clean(goes, stays, user.id)
