"""The password of a guest's administrator: set while it runs, and told to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.leftovers import look
from tests.servers import (
    act,
    boot,
    console,
    events,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults
from cumulet.db.engine import Tx

pytestmark = pytest.mark.anyio
SECRET = "sehr-geheim-4711"
SET = "The administrator has a new password"


def tells(directory: Path, cloud: TestCloud) -> list[str]:
    """Where the secret can be read: tables, and files of agents."""

    def rows(tx: Tx) -> list[str]:
        history = ("actions", "action_events", "deleted_servers")
        return [
            name for name in history if any(SECRET in str(row) for row in tx.all(f"select * from {name}"))
        ]

    found = [
        name for name, texts in look(cloud.db, directory).items() if any(SECRET in text for text in texts)
    ]
    found += cloud.db.read_now(rows)  # type: ignore[attr-defined]
    for path in directory.rglob("*"):
        if path.is_file() and ".db" not in path.name and SECRET.encode() in path.read_bytes():
            found.append(str(path.relative_to(directory)))
    return sorted(found)


async def test_it_is_set_and_forgotten(
    cloud: TestCloud, image: str, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, config_drive=True)
    await cloud.db.write(faults.add, faults.Rule(step="guest.ensure", effect="hold"))
    answer = await act(cloud, id, "changePassword", {"adminPass": SECRET})
    assert (answer.status_code, answer.text) == (202, "")
    shown = await show(cloud, id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("PASSWORD", "updating_password")
    assert (await act(cloud, id, "os-stop")).status_code == 409
    # Until the guest has it, it is where the guest's host reads it, and nowhere else.
    assert tells(directory, cloud) == ["claims", "servers"]
    assert SECRET not in str(await show(cloud, id, as_="admin"))
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert (await console(cloud, id)).count(SET) == 1
    assert tells(directory, cloud) == []
    assert (await events(cloud, id))[0] == ("changePassword", "compute_set_admin_password", "Success", None)
    await act(cloud, id, "reboot", {"type": "HARD"})
    await wait_for(cloud, id, "ACTIVE")
    assert (await console(cloud, id)).count(SET) == 1
    await act(cloud, id, "changePassword", {"adminPass": SECRET})
    await wait_for(cloud, id, "ACTIVE")
    assert (await console(cloud, id)).count(SET) == 2
    await remove(cloud, id)
    await wait_for_everything(cloud, before)
    assert tells(directory, cloud) == []
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err


async def test_it_fails_or_the_server_is_deleted(cloud: TestCloud, image: str, directory: Path) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(
        faults.add, faults.Rule(step="guest.ensure", effect="fail", message="no agent inside")
    )
    await act(cloud, id, "changePassword", {"adminPass": SECRET})
    await wait_for(cloud, id, "ERROR")
    assert (await events(cloud, id))[0][2:] == ("Error", "Error")
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert tells(directory, cloud) == []
    await cloud.db.write(faults.add, faults.Rule(step="guest.ensure", effect="hold"))
    await act(cloud, id, "changePassword", {"adminPass": SECRET})
    assert (await cloud.delete(f"/compute/v2.1/servers/{id}")).status_code == 204
    await cloud.db.write(faults.clear)
    await wait_for_everything(cloud, before)
    assert tells(directory, cloud) == []


async def test_what_is_refused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    bad: list[Any] = [None, {}, {"adminPass": 1}, {"adminPass": "x", "y": 1}, {"password": "x"}]
    for value in bad:
        assert (await act(cloud, id, "changePassword", value)).status_code == 400, value
    body = {"adminPass": "x"}
    assert (await act(cloud, id, "changePassword", body, as_="other")).status_code == 404
    assert (await act(cloud, id, "changePassword", body, as_="reader")).status_code == 403
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    assert (await act(cloud, id, "changePassword", body)).status_code == 409
    await act(cloud, id, "os-start")
    await wait_for(cloud, id, "ACTIVE")

    def cannot(tx: Tx) -> None:
        """The hosts say that they cannot do it."""
        for host in tx.all("select id, facts from agents where kind = 'host'"):
            tx.update("agents", host["id"], facts={**host["facts"], "passwords": False})

    await cloud.db.write(cannot)
    refused = await act(cloud, id, "changePassword", body)
    assert (refused.status_code, "not supported" in refused.text) == (409, True)
    await act(cloud, id, "lock")
    assert (await act(cloud, id, "changePassword", body)).status_code == 409
    assert (await show(cloud, id))["status"] == "ACTIVE"
