"""C22: floating IPs of a server that is deleted. jenkins openstack-cloud-plugin 81, 84; elektra 287."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from cumulet.core import network_removal
from cumulet.db.engine import Database, Tx
from tests.case import COMPUTE, NETWORK, Case, stage

pytestmark = pytest.mark.anyio

FLOATING = f"{NETWORK}/floatingips"


async def way_out(case: Case) -> str:
    """A router from the networks of the case to the public one; the public network."""
    networks = (await case.get(f"{NETWORK}/networks?router:external=true"))["networks"]
    public = str(networks[0]["id"])
    body = {"router": {"external_gateway_info": {"network_id": public}}}
    router = (await case.call("POST", f"{NETWORK}/routers", json=body)).json()["router"]["id"]
    for network in (case.network, case.network2):
        path = f"{NETWORK}/routers/{router}/add_router_interface"
        await case.call("PUT", path, json={"subnet_id": network["subnet"]})
    return public


async def floating(case: Case, public: str, port: str | None = None) -> str:
    body = {"floatingip": {"floating_network_id": public, **({"port_id": port} if port else {})}}
    return str((await case.call("POST", FLOATING, json=body)).json()["floatingip"]["id"])


async def shown(case: Case, id: str) -> tuple[Any, ...]:
    """Where a floating IP leads to: port, address, router, status."""
    found = (await case.get(f"{FLOATING}/{id}"))["floatingip"]
    return tuple(found[name] for name in ("port_id", "fixed_ip_address", "router_id", "status"))


NOWHERE = (None, None, None, "DOWN")


async def test_they_stay_the_users(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        public = await way_out(case)
        port = await case.make_port()
        await case.settle()
        case.remember()
        usage = await case.network_usage()
        server = await case.boot(networks=[{"port": port["id"]}, {"uuid": case.network2["id"]}])
        (auto,) = [one["id"] for one in await case.ports_of(server) if one["id"] != port["id"]]
        kept, loose = await floating(case, public, port["id"]), await floating(case, public, auto)
        await case.settle()
        before = await shown(case, kept)
        assert (before[0], before[3]) == (port["id"], "ACTIVE")
        assert (await shown(case, loose))[0] == auto
        await case.delete(server)
        # At once.
        assert await shown(case, loose) == NOWHERE
        assert await shown(case, kept) == before
        assert (await case.network_usage())["floatingip"] == usage["floatingip"] + 2
        # Neither is in a state from which there is no way out.
        for id in (kept, loose):
            await case.call("DELETE", f"{FLOATING}/{id}", 204)
        await case.clean()
        assert await case.network_usage() == usage


async def test_one_that_is_associated_meanwhile_never_leads_to_a_port_that_is_gone(
    db: Database, directory: Path
) -> None:
    async with stage(db, directory, hosts=1) as case:
        public = await way_out(case)
        id = await floating(case, public)
        await case.settle()
        case.remember()
        with case.watching(DANGLING) as dangling:
            for turn in range(6):
                server = await case.boot(networks=[{"uuid": case.network["id"]}])
                (auto,) = await case.ports_of(server)
                held = await case.held("tap.remove", "after")
                await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
                await case.struck(held)
                if turn == 0:
                    # Its port is still there while the host works, and so it can be had.
                    assert await associate(case, id, auto["id"]) == 200
                _, answer, _ = await asyncio.gather(
                    case.release(held), associate(case, id, auto["id"]), case.gone(server)
                )
                assert answer in (200, 404)
                assert await shown(case, id) == NOWHERE
        assert dangling == [0]
        await case.clean()


async def associate(case: Case, id: str, port: str) -> int:
    response = await case.cloud.put(f"{FLOATING}/{id}", json={"floatingip": {"port_id": port}})
    assert response.status_code in (200, 404), response.text
    return response.status_code


#: Floating IPs that lead to no port, and yet somewhere.
DANGLING = (
    "select count(*) from floatingips where port_id is null and "
    "(fixed_ip_address is not null or router_id is not null or status <> 'DOWN')"
)


@pytest.mark.parametrize("db", ["postgresql"], indirect=True)
async def test_a_port_that_goes_waits_for_who_leads_to_it(db: Database, directory: Path) -> None:
    """SQLite has one writer. PostgreSQL has many: here the association is written and not committed."""
    async with stage(db, directory, hosts=1) as case:
        public = await way_out(case)
        port, id = (await case.make_port())["id"], await floating(case, public)
        fixed = (await case.port(port))["fixed_ips"][0]["ip_address"]
        written, go_on = threading.Event(), threading.Event()

        def lead_there(tx: Tx) -> None:
            tx.lock("ports", port)
            tx.update("floatingips", id, port_id=port, fixed_ip_address=fixed)
            written.set()
            assert go_on.wait(10)

        leading = asyncio.create_task(db.write(lead_there))
        await case.until(lambda: asyncio.to_thread(written.wait, 0.01), "the association")
        removing = asyncio.create_task(db.write(network_removal.port, port))

        async def blocked() -> Any:
            return await db.read(lambda tx: tx.one("select 1 from pg_locks where not granted"))

        await case.until(blocked, "the removal to wait")
        go_on.set()
        await asyncio.gather(leading, removing)
        assert await shown(case, id) == NOWHERE
