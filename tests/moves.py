"""Servers that move, for cases: one on H1 with a disk, a config drive, a volume and a port, and what must be left of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.case import COMPUTE, H1, H2, H3, Case

#: States of a move that is over, as Nova names them.
FINAL = {"confirmed", "reverted", "completed", "done", "error", "cancelled", "failed", "accepted"} - {
    "accepted"
}


@dataclass
class Mover:
    """A server and what it has. The port and the volume are the user's, and serve one server after the other."""

    case: Case
    port: str
    volume: str
    usage: dict[str, int]
    server: str = ""
    own: str = ""

    @classmethod
    async def prepare(cls, case: Case) -> Mover:
        port, volume = (await case.make_port())["id"], await case.make_volume()
        await case.settle()
        case.remember()
        return cls(case, port, volume, await case.usages())

    async def boot(self, **more: Any) -> str:
        """A server that runs on H1."""
        case = self.case
        others = [host for host in (H2, H3) if host in case.cloud.agents]
        for host in others:
            await case.enable(host, False)
        self.server = await case.boot(
            **{
                "config_drive": True,
                "networks": [{"port": self.port}, {"uuid": case.network2["id"]}],
                "block_device_mapping_v2": case.devices(self.volume),
                **more,
            }
        )
        for host in others:
            await case.enable(host, True)
        assert await case.host_of(self.server) == H1
        (self.own,) = [one["id"] for one in await case.ports_of(self.server) if one["id"] != self.port]
        return self.server

    async def act(self, action: str, body: Any = None, *codes: int, version: str = "compute 2.94") -> None:
        await self.case.call(
            "POST", f"{COMPUTE}/servers/{self.server}/action", *(codes or (200, 202, 204)), as_="admin",
            json={action: body}, version=version,
        )  # fmt: skip

    async def resize(self) -> None:
        await self.act("resize", {"flavorRef": self.case.flavor2})

    async def migrate(self) -> None:
        await self.act("migrate")

    async def migrate_live(self) -> None:
        await self.act("os-migrateLive", {"host": None, "block_migration": "auto"})

    async def evacuate(self) -> None:
        await self.act("evacuate", {})

    async def is_moved(self) -> None:
        """It is at the target, as it should be there."""
        await self.case.server_is(self.server, "VERIFY_RESIZE")
        assert await self.case.host_of(self.server) != H1

    async def moves(self) -> list[dict[str, Any]]:
        found = await self.case.get(f"{COMPUTE}/os-migrations?instance_uuid={self.server}", as_="admin")
        moves: list[dict[str, Any]] = found["migrations"]
        return moves

    async def consumers(self) -> list[str]:
        """The server, and its moves."""
        return [self.server, *(one["uuid"] for one in await self.moves())]

    async def is_free(self) -> None:
        """In the first moment of the 404 nothing of what it had is in use, and nothing is counted."""
        case = self.case
        for consumer in await self.consumers():
            assert await case.allocations(consumer) == {}
        port = await case.port(self.port)
        assert (port["device_id"], port["device_owner"], port["binding:host_id"]) == ("", "", "")
        await case.call("GET", f"/network/v2.0/ports/{self.own}", 404, as_="admin")
        volume = await case.volume(self.volume)
        assert (volume["status"], volume["attachments"]) == ("available", [])
        assert await case.attachments(self.server) == []
        assert await case.usages() == self.usage
        assert {one["status"] for one in await self.moves()} <= FINAL

    async def ends(self) -> None:
        """It goes, and nothing is left of it on any host."""
        case = self.case
        await case.gone(self.server)
        await self.is_free()
        await case.settle()
        for host in case.cloud.agents:
            if host.startswith("h"):
                assert case.things(host) == []
        assert case.exports() == []
        case.clean_now()
