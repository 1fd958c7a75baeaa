"""Where Nova's delete leaves something behind when a part of it fails: nothing is forgotten here.

Nova swallows or logs these failures (nova/compute/api.py, ``_local_delete``; nova/compute/manager.py,
``_shutdown_instance``; nova/network/neutron.py, ``_unbind_ports``), and then nothing knows of what is left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.case import COMPUTE, H1, Case, stage
from tests.leftovers import difference, look

from cumulet.core import ports, scheduling, volumes
from cumulet.core.servers import remove
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio


async def server_with_everything(case: Case, *, placed: bool = True) -> tuple[str, str, str, str]:
    """A server, its user's port and volume, and a volume that goes with it."""
    port = (await case.make_port())["id"]
    volume, doomed = await case.make_volume(), await case.make_volume()
    await case.settle()
    case.remember()
    if not placed:
        await case.held("schedule")
    attach = {"source_type": "volume", "destination_type": "volume"}
    server = await case.create(
        networks=[{"port": port}, {"uuid": case.network2["id"]}],
        block_device_mapping_v2=[
            {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"},
            {**attach, "uuid": volume},
            {**attach, "uuid": doomed, "delete_on_termination": True},
        ],
    )
    if placed:
        await case.server_is(server, "ACTIVE")
    else:
        await case.waits(server, "a fault rule holds the step schedule")
    return server, port, volume, doomed


async def waiting(case: Case, holder: str) -> str:
    """What a holder waits for, as the operator reads it."""
    holders = (await case.get("/cumulet/v1/holders", as_="admin"))["holders"]
    return next((one["reason"] for one in holders if one["id"] == holder), "")


@pytest.mark.parametrize("way", ["host", "local"])
async def test_a_users_port_that_the_network_cannot_reset(db: Database, directory: Path, way: str) -> None:
    """The port is free all the same; what the network has not done is on record, and done in the end."""
    async with stage(db, directory, hosts=1) as case:
        server, port, _, doomed = await server_with_everything(case)
        if way == "local":
            await case.down(H1)
        await case.fault("lport.ensure", count=None, message="the network is broken")
        await case.delete(server)
        shown = await case.port(port)
        assert (shown["device_id"], shown["device_owner"], shown["binding:host_id"]) == ("", "", "")

        async def told() -> bool:
            return "the network is broken" in await waiting(case, port)

        await case.until(told, "the failure to be on record")
        # It can be used again at once: the next server waits for the network, not for its predecessor.
        if way == "local":
            await case.up(H1)
        await case.release()
        await case.clean(doomed)


@pytest.mark.parametrize("way", ["host", "local"])
async def test_volumes_that_the_back_end_cannot_give_back(db: Database, directory: Path, way: str) -> None:
    """The server does not wait for ever; its volumes go on alone, seen and counted, until they are done."""
    async with stage(db, directory, hosts=1, patience=0.3) as case:
        server, _, volume, doomed = await server_with_everything(case)
        usage = await case.volume_usage()
        if way == "local":
            await case.down(H1)
        for step in ("export.remove", "volume.remove"):
            await case.fault(step, count=None, message="the back end is broken")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.gone(server)
        assert await case.usage() == {"Instances": 0, "Cores": 0, "RAM": 0}
        # Nothing is forgotten: both volumes are the project's, say what they wait for, and are counted.
        assert (await case.volume(volume))["status"] == "detaching"
        assert (await case.volume(doomed))["status"] in ("detaching", "deleting")
        for id in (volume, doomed):
            assert "the back end is broken" in await waiting(case, id)
        assert await case.volume_usage() == usage
        if way == "local":
            await case.up(H1)
        await case.release()
        await case.volume_is(volume, "available")
        await case.volume_gone(doomed)
        await case.clean(doomed)


#: What is written when a server goes, each of which may fail.
WRITES = [
    (ports, "give_back"), (ports, "delete"), (volumes, "end_attachment"), (scheduling, "free"), (remove, "record"),
]  # fmt: skip


def breaks(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[str]:
    """The function fails at its next call, and works again then; what it did fail at."""
    right, failed = getattr(module, name), list[str]()

    def wrong(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(name)
            raise RuntimeError("the database broke")
        return right(*args, **kwargs)

    monkeypatch.setattr(module, name, wrong)
    return failed


@pytest.mark.parametrize(
    ("way", "module", "name"),
    [
        *(("local", module, name) for module, name in WRITES if name in ("give_back", "delete", "free")),
        *(("never placed", module, name) for module, name in WRITES if name != "free"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_delete_that_fails_half_way_has_done_nothing(
    db: Database, directory: Path, monkeypatch: pytest.MonkeyPatch, way: str, module: Any, name: str
) -> None:
    """All that can be written at once is one transaction: the caller hears that it failed, and asks again."""
    async with stage(db, directory, hosts=1) as case:
        server, port, volume, doomed = await server_with_everything(case, placed=way == "local")
        if way == "local":
            await case.down(H1)
        await case.settle()
        before, shown = look(db, directory), await case.server(server)
        failed = breaks(monkeypatch, module, name)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 500)
        assert failed == [name]
        assert difference(before, look(db, directory)) == []
        assert await case.server(server) == shown
        assert (await case.volume(volume))["status"] in ("in-use", "reserved")
        assert (await case.port(port))["device_id"] == server
        await case.delete(server)
        if way == "local":
            await case.up(H1)
        await case.release()
        await case.clean(doomed)


@pytest.mark.parametrize(("module", "name"), WRITES, ids=[name for _, name in WRITES])
async def test_a_report_that_could_not_be_written_is_made_again(
    db: Database, directory: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """The host is up, and what it says ends the server: nobody has to call again."""
    async with stage(db, directory, hosts=1) as case:
        server, _, _, doomed = await server_with_everything(case)
        failed = breaks(monkeypatch, module, name)
        await case.delete(server)
        assert failed == [name]
        case.clean_at_once(doomed)
        await case.volume_gone(doomed)
        await case.clean(doomed)
