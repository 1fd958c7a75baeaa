"""C31: the host is down when the server is deleted. Nova LP 1609984, 1679750."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, NETWORK, PLACEMENT, Case, stage

pytestmark = pytest.mark.anyio


async def on_a_host_that_goes_down(case: Case) -> tuple[str, str, str, dict[str, Any]]:
    """A server on H1, which goes down then: its id, its port, its volume, and its own port."""
    port, volume = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    await case.enable(H2, False)
    server = await case.boot(
        config_drive=True,
        networks=[{"port": port}, {"uuid": case.network2["id"]}],
        block_device_mapping_v2=case.devices(volume),
    )
    await case.enable(H2, True)
    assert await case.host_of(server) == H1
    (own,) = [one for one in await case.ports_of(server) if one["id"] != port]
    return server, port, volume, own


async def deleted_without_its_host(case: Case) -> tuple[str, str, str, dict[str, Any]]:
    """The same, and the server is deleted; this is the first moment of its 404."""
    usage = await case.usage()
    server, port, volume, own = await on_a_host_that_goes_down(case)
    await case.down(H1)
    things = case.things(H1)
    attached = await export_of(case, volume)
    with removals(case) as removed:
        await case.delete(server)
    assert await case.servers() == []
    free = await case.port(port)
    assert (free["device_id"], free["device_owner"], free["binding:host_id"]) == ("", "", "")
    await case.call("GET", f"{NETWORK}/ports/{own['id']}", 404, as_="admin")
    assert await case.allocations(server) == {}
    assert await used(case, H1) == {}
    assert await case.usage() == usage
    shown = await case.volume(volume)
    assert (shown["status"], shown["attachments"]) == ("available", [])
    # Its export to the host was closed, with what it was opened with.
    assert case.exports() == []
    assert removed == [attached]
    assert attached["host"] == H1
    # Nothing on the host was touched.
    assert case.things(H1) == things
    assert {one["kind"] for one in await case.owed()} >= {"guest", "disk", "tap", "connection"}
    return server, port, volume, own


async def export_of(case: Case, volume: str) -> dict[str, Any]:
    """What the back end was told when it exported the volume."""
    (name,) = case.exports()
    spec: dict[str, Any] = json.loads(
        (case.directory / "agents" / "volume-sim" / "export" / name).read_bytes()
    )["spec"]
    assert spec["volume"] == volume
    return spec


class removals:
    """What the back end is told of the exports that it removes, while the block runs."""

    def __init__(self, case: Case) -> None:
        agent = case.cloud.agents["sim"].agent
        assert agent is not None
        self.driver = agent.drivers["export"]
        self.found: list[dict[str, Any]] = []

    def __enter__(self) -> list[dict[str, Any]]:
        remove = self.driver.remove

        async def noted(claim: Any) -> None:
            self.found.append(dict(claim.spec))
            await remove(claim)

        self.driver.remove = noted  # type: ignore[method-assign]
        return self.found

    def __exit__(self, *_: object) -> None:
        del self.driver.remove


async def used(case: Case, host: str) -> dict[str, int]:
    """What is used of a host's provider."""
    (provider,) = (await case.get(f"{PLACEMENT}/resource_providers?name={host}", as_="admin"))[
        "resource_providers"
    ]
    found = await case.get(f"{PLACEMENT}/resource_providers/{provider['uuid']}/usages", as_="admin")
    return {name: amount for name, amount in found["usages"].items() if amount}


async def used_again(case: Case, port: str, volume: str) -> str:
    """A new server on H2 with the same port and volume."""
    server = await case.boot(
        name="t", networks=[{"port": port}], block_device_mapping_v2=case.devices(volume)
    )
    assert await case.host_of(server) == H2
    assert (await case.volume(volume))["status"] == "in-use"
    return server


async def is_untouched(case: Case, server: str, port: str, volume: str) -> None:
    shown = await case.server(server)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", H2)
    assert (await case.port(port))["binding:host_id"] == H2
    (attachment,) = await case.attachments(server)
    assert (attachment["volume_id"], attachment["status"]) == (volume, "attached")
    assert len(case.exports()) == 1
    assert len([name for name in case.things(H2) if name.startswith("guest/")]) == 1


async def test_all_that_does_not_need_the_host_is_free_at_once(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        _, port, volume, _ = await deleted_without_its_host(case)
        other = await used_again(case, port, volume)
        await case.up(H1)
        await case.until(lambda: nothing_on(case, H1), "the host to remove what it owes")
        await case.settle()
        assert await case.owed() == []
        await is_untouched(case, other, port, volume)
        await case.delete(other)
        await case.clean()


async def nothing_on(case: Case, host: str) -> bool:
    return case.things(host) == []


async def test_the_address_of_a_guest_that_may_still_run_is_not_given_away(
    db: Database, directory: Path
) -> None:
    async with stage(db, directory, hosts=2) as case:
        _, _, _, own = await deleted_without_its_host(case)
        (address,) = [fixed["ip_address"] for fixed in own["fixed_ips"]]
        body = {"network_id": case.network2["id"], "fixed_ips": [{"ip_address": address}]}
        await case.call("POST", f"{NETWORK}/ports", 409, json={"port": body})
        given = (await case.make_port(case.network2["id"]))["fixed_ips"][0]["ip_address"]
        assert given != address
        await case.up(H1)
        await case.settle()
        # The guest is gone, and so is what kept its address.
        again = (await case.make_port(case.network2["id"], fixed_ips=body["fixed_ips"]))["fixed_ips"]
        assert again[0]["ip_address"] == address
        for one in (await case.get(f"{NETWORK}/ports?network_id={case.network2['id']}"))["ports"]:
            await case.call("DELETE", f"{NETWORK}/ports/{one['id']}", 204)
        await case.clean()


async def test_a_host_that_never_comes_back_is_taken_out(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        _, port, volume, own = await deleted_without_its_host(case)
        agent = await case.service(H1)
        await case.call("DELETE", f"{COMPUTE}/os-services/{agent}", 204, as_="admin")
        # Its provider has gone with it, and nothing new is put there; what it owes is still known.
        found = await case.get(f"{PLACEMENT}/resource_providers?name={H1}", as_="admin")
        assert found["resource_providers"] == []
        assert {one["kind"] for one in await case.owed()} >= {"guest", "disk", "tap", "connection"}
        other = await used_again(case, port, volume)
        # The operator's word that it is destroyed closes the debts, and frees the address.
        said = await case.call("POST", f"/cumulet/v1/agents/{agent}/destroyed", 200, as_="admin")
        assert said.json()["closed"] > 0
        assert await case.owed() == []
        fixed = [{"ip_address": own["fixed_ips"][0]["ip_address"]}]
        again = await case.make_port(case.network2["id"], fixed_ips=fixed)
        await case.call("DELETE", f"{NETWORK}/ports/{again['id']}", 204)
        await is_untouched(case, other, port, volume)
        await case.delete(other)
        # All is as before, but for the host: its row, its provider, and the files that nobody can reach.
        providers = await case.db.read(lambda tx: tx.values("select name from resource_providers"))
        assert providers == [H2]
        await case.clean(H1, agent, *gone_with(case, agent))


def gone_with(case: Case, agent: str) -> list[str]:
    """Names of what went with a host that was taken out: its provider, and files that nobody can reach."""
    provider = [
        json.loads(row)["id"]
        for row in case.before["resource_providers"]
        if json.loads(row)["agent"] == agent
    ]
    return [*provider, *case.things(H1)]


async def test_a_silent_host_is_waited_for_until_the_patience_ends(db: Database, directory: Path) -> None:
    """The same, when nobody says that the host is down."""
    async with stage(db, directory, hosts=2) as case:
        server, port, volume, _ = await on_a_host_that_goes_down(case)
        await case.cloud.agents[H1].stop()
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        shown = await case.server(server)
        assert shown["OS-EXT-STS:task_state"] == "deleting"
        assert (await case.volume(volume))["status"] == "in-use"
        assert len(case.exports()) == 1
        await case.silent(H1)
        await case.gone(server)
        assert (await case.volume(volume))["status"] == "available"
        assert case.exports() == []
        other = await used_again(case, port, volume)
        case.start(H1)
        await case.settle()
        assert case.things(H1) == []
        await is_untouched(case, other, port, volume)
        await case.delete(other)
        await case.clean()


async def test_a_server_in_error_on_a_host_that_is_down(db: Database, directory: Path) -> None:
    """A build that failed after its host went down, and one whose clean-up cannot reach the host."""
    async with stage(db, directory, hosts=1, build_attempts=1) as case:
        port, volume = (await case.make_port())["id"], await case.make_volume()
        await case.settle()
        case.remember()
        rule = await case.held("guest.ensure", "after")
        server = await case.create(
            config_drive=True, networks=[{"port": port}], block_device_mapping_v2=case.devices(volume)
        )
        await case.struck(rule)
        await case.down(H1)
        shown = await case.server_is(server, "ERROR")
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        assert "does not answer" in shown["fault"]["message"]
        assert await case.allocations(server) == {}
        assert (await case.port(port))["device_id"] == ""
        await case.delete(server)
        assert (await case.volume(volume))["status"] == "available"
        assert case.exports() == []
        assert case.things(H1) != []
        await case.release()
        await case.up(H1)
        await case.settle()
        assert case.things(H1) == []
        await case.clean()
