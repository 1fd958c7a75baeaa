"""What an agent reports may lead to something that fails. The agent goes on, and others hear of it.

Found by random requests: a volume that was being deleted was connected by its user, the record could not go with the
report that its bytes were gone, and the back end's agent took the refusal for the end of its session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cumulet.core import faults
from cumulet.core.volumes import lifecycle
from cumulet.db.engine import Database, StillHeld, Tx
from cumulet.reconcile import worker
from tests.cloud import TestCloud, running_cloud, until
from tests.volumes import NEWEST, VOLUMES, ask, gone, volume

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    async with running_cloud(db, directory) as made:
        yield made


async def test_a_volume_that_goes_is_not_connected(cloud: TestCloud) -> None:
    made = await volume(cloud)
    path = f"{VOLUMES}/{made['id']}"
    rule = await cloud.db.write(faults.add, faults.Rule("volume.remove", "hold"))
    await ask(cloud, "DELETE", path, 202)
    for action in ("os-initialize_connection", "os-terminate_connection"):
        body = {action: {"connector": {"host": "h"}}}
        answer = await cloud.post(f"{path}/action", json=body, version=NEWEST)
        assert answer.status_code in (202, 400), answer.text
    assert await cloud.db.read(lambda tx: tx.all("select * from attachments")) == []
    await cloud.db.write(faults.remove, rule)
    await gone(cloud, path)


async def test_a_holder_that_fails_does_not_keep_its_agent_from_others(
    cloud: TestCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = await volume(cloud), await volume(cloud)
    remove = lifecycle._remove
    failed: list[str] = []

    def refuse(tx: Tx, view: Any) -> None:
        if view.id == bad["id"]:
            failed.append(view.id)
            raise StillHeld("something names it")
        remove(tx, view)

    monkeypatch.setattr(lifecycle, "_remove", refuse)
    monkeypatch.setattr(worker, "PAUSE_AFTER_ERROR", 0.05)
    await ask(cloud, "DELETE", f"{VOLUMES}/{bad['id']}", 202)

    async def twice() -> bool:
        return len(failed) > 1

    # Once with the report, and then by the worker, which tells of it.
    await until(twice)
    await ask(cloud, "DELETE", f"{VOLUMES}/{good['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{good['id']}")
    assert (await cloud.get(f"{VOLUMES}/{bad['id']}")).status_code == 200
    monkeypatch.undo()
    await gone(cloud, f"{VOLUMES}/{bad['id']}")
    assert await cloud.db.read(lambda tx: tx.values("select name from agents where silent")) == []
