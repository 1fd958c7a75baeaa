"""C04: the second attempt succeeds, and the ports of the first attempt stay. Nova LP 1597596."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import H1, H2, H3, stage

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("failing", "left"), [((H1,), H2), ((H1, H2), H3)], ids=["once", "twice"])
async def test_a_retry_takes_its_ports_along(
    db: Database, directory: Path, failing: tuple[str, ...], left: str
) -> None:
    async with stage(db, directory) as case:
        port = await case.make_port()
        await case.settle()
        case.remember()
        usage = await case.usages()
        for host in failing:
            await case.fault("guest.ensure", count=None, host=host)
        server = await case.boot(
            networks=[
                {"port": port["id"]},
                {"uuid": case.network["id"]},
                {"uuid": case.network2["id"]},
            ]
        )
        await case.release()
        assert await case.host_of(server) == left
        ports = await case.ports_of(server)
        assert len(ports) == 3
        assert {one["binding:host_id"] for one in ports} == {left}
        assert port["id"] in {one["id"] for one in ports}
        assert (await case.network_usage())["port"] == usage["port"] + 2
        assert [one["provider"] for one in await case.allocated(server)] == [left]
        for host in failing:
            assert case.things(host) == []
        await case.delete(server)
        case.clean_at_once()
        assert await case.usages() == usage
        await case.clean()
