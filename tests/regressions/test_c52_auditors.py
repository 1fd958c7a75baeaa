"""C52: an auditor takes the allocation of a server that is being built. Nova LP 1729371."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from cumulet.db.engine import Database
from cumulet.reconcile import sweep
from cumulet.reconcile.sweep import Finding
from tests.case import COMPUTE, H1, PLACEMENT, Case, stage

pytestmark = pytest.mark.anyio

NEWEST_PLACEMENT = "placement 1.39"
#: Where a build stands while every auditor runs.
STOPS = ["unread"] + [
    f"{kind}.ensure {moment}"
    for kind in ("disk", "tap", "export", "connection", "guest")
    for moment in ("before", "after")
]


async def all_auditors_run(case: Case) -> list[Finding]:
    """Every auditor and collector, twice, without mercy for what is young; what the control plane's found."""
    found: list[Finding] = []
    for _ in range(2):
        for supervisor in case.cloud.agents.values():
            if supervisor.agent is not None:
                await supervisor.agent.audit()
        found = await case.db.write(sweep.sweep, floor=0.0, stuck_after=3600.0)
    return found


async def is_allocated(case: Case, server: str) -> None:
    """Its allocation is there, and is what its flavor says."""
    flavor = (await case.get(f"{COMPUTE}/flavors/{case.flavor}"))["flavor"]
    (allocated,) = await case.allocated(server)
    assert allocated["provider"] == H1
    wanted = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["ram"], "DISK_GB": flavor["disk"]}
    assert allocated["resources"] == {name: amount for name, amount in wanted.items() if amount}


@pytest.mark.parametrize("stop", STOPS)
async def test_nothing_of_a_build_is_taken(db: Database, directory: Path, stop: str) -> None:
    """From the claim on, which is one transaction with the record, until the host has made the last thing."""
    async with stage(db, directory, hosts=1) as case:
        volume = await case.make_volume()
        await case.settle()
        case.remember()
        step, _, moment = stop.partition(" ")
        rule = ""
        if stop == "unread":
            await case.cloud.agents[H1].stop()
        else:
            rule = await case.held(step, moment)
        server = await case.create(
            networks=[{"uuid": case.network["id"]}], block_device_mapping_v2=case.devices(volume)
        )
        await case.until(lambda: case.host_of(server), "a host to be chosen")
        if rule:
            await case.struck(rule)
        assert await all_auditors_run(case) == []
        await is_allocated(case, server)
        if rule:
            await case.release(rule)
        else:
            case.start(H1)
        await case.server_is(server, "ACTIVE")
        await is_allocated(case, server)
        assert await all_auditors_run(case) == []
        await case.delete(server)
        assert await case.allocations(server) == {}
        case.clean_at_once()
        await case.clean()


async def allocate(case: Case, consumer: str, kind: str = "INSTANCE") -> None:
    """An allocation that a client of Placement makes by itself."""
    (provider,) = (await case.get(f"{PLACEMENT}/resource_providers?name={H1}", as_="admin"))[
        "resource_providers"
    ]
    body = {
        "allocations": {provider["uuid"]: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}},
        "project_id": case.cloud.project("demo"),
        "user_id": case.cloud.user("demo"),
        "consumer_generation": None,
        "consumer_type": kind,
    }
    path = f"{PLACEMENT}/allocations/{consumer}"
    await case.call("PUT", path, 204, as_="admin", json=body, version=NEWEST_PLACEMENT)


async def test_who_is_not_known_may_be_in_the_making(db: Database, directory: Path) -> None:
    """An allocation without a server is told of, and stays: whoever made it may be about to need it."""
    async with stage(db, directory, hosts=1) as case:
        consumer = str(uuid.uuid4())
        await allocate(case, consumer)
        for _ in range(3):
            (found,) = await all_auditors_run(case)
            assert (found.kind, found.id, found.proven) == ("allocation", consumer, False)
            assert "is not known" in found.message
            assert await case.allocations(consumer) != {}
        await case.call("DELETE", f"{PLACEMENT}/allocations/{consumer}", 204, as_="admin")
        await case.clean()


async def test_what_a_deleted_server_left_is_removed(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        server = await case.boot()
        await case.delete(server)
        assert await case.allocations(server) == {}
        await allocate(case, server)
        assert await case.allocations(server) != {}
        assert await all_auditors_run(case) == []
        assert await case.allocations(server) == {}
        await case.clean()


async def test_consumers_that_are_no_servers_are_nobodys_business(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        consumer = str(uuid.uuid4())
        await allocate(case, consumer, "BACKUP")
        assert await all_auditors_run(case) == []
        assert await case.allocations(consumer) != {}
        await case.call("DELETE", f"{PLACEMENT}/allocations/{consumer}", 204, as_="admin")
        await case.clean()


async def test_nothing_that_a_host_has_is_taken_because_its_name_is_not_known(
    db: Database, directory: Path
) -> None:
    """A thing that no claim names is told of, and only the operator's word removes it."""
    async with stage(db, directory, hosts=1) as case:
        server = await case.boot()
        (guest,) = [name for name in case.things(H1) if name.startswith("guest/")]
        stranger = str(uuid.uuid4())
        directory_ = case.directory / "agents" / f"host-{H1}"
        (directory_ / "guest" / stranger).write_bytes((directory_ / guest).read_bytes())
        await case.cloud.agents[H1].agent.audit()  # type: ignore[union-attr]
        await case.until(lambda: knows_of(case, stranger), "the host to tell of it")
        (found,) = await all_auditors_run(case)
        assert (found.kind, found.id) == ("orphan", stranger)
        assert f"guest/{stranger}" in case.things(H1)
        await case.delete(server)
        assert case.things(H1) == [f"guest/{stranger}"]
        await case.db.write(sweep.remove_orphan, found.facts["agent"], stranger)
        await case.clean()


async def knows_of(case: Case, thing: str) -> bool:
    orphans = (await case.get("/cumulet/v1/orphans", as_="admin"))["orphans"]
    return any(one["thing"] == thing for one in orphans)
