"""What the tests of volumes share: things that are made and waited for, and a look at what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.cloud import TestCloud, until

ROOT = "/volume/v3"
VOLUMES = f"{ROOT}/volumes"
SNAPSHOTS = f"{ROOT}/snapshots"
ATTACHMENTS = f"{ROOT}/attachments"
TYPES = f"{ROOT}/types"
NEWEST = "volume 3.71"


async def ask(cloud: TestCloud, method: str, path: str, status: int, **more: Any) -> Any:
    """One request that must be answered with the status; its body, if it has one."""
    response = await cloud.request(method, path, **more)
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None


async def volume(
    cloud: TestCloud, *, as_: str = "demo", status: str = "available", **body: Any
) -> dict[str, Any]:
    """A new volume once it shows the status."""
    body = {"size": 1, **body} if "size" not in body else body
    made = await ask(cloud, "POST", VOLUMES, 202, json={"volume": body}, as_=as_, version=NEWEST)
    return await shows(cloud, f"{VOLUMES}/{made['volume']['id']}", status)


async def snapshot(cloud: TestCloud, volume_id: str, **body: Any) -> dict[str, Any]:
    """A new snapshot once it is available."""
    body = {"volume_id": volume_id, **body}
    made = await ask(cloud, "POST", SNAPSHOTS, 202, json={"snapshot": body}, version=NEWEST)
    return await shows(cloud, f"{SNAPSHOTS}/{made['snapshot']['id']}", "available")


async def shows(cloud: TestCloud, path: str, status: str) -> dict[str, Any]:
    """The thing at the path once it shows the status."""

    async def look() -> dict[str, Any] | None:
        body = await ask(cloud, "GET", path, 200, as_="admin", version=NEWEST)
        found: dict[str, Any] = next(iter(body.values()))
        return found if found["status"] == status else None

    found: dict[str, Any] = await until(look)
    return found


async def gone(cloud: TestCloud, path: str) -> None:
    """Return once the thing at the path is there no more."""

    async def look() -> bool:
        return (await cloud.get(path, as_="admin", version=NEWEST)).status_code == 404

    await until(look)


async def act(cloud: TestCloud, volume_id: str, status: int, action: dict[str, Any], **more: Any) -> Any:
    """An action of a volume that must be answered with the status."""
    return await ask(cloud, "POST", f"{VOLUMES}/{volume_id}/action", status, json=action, **more)


def things(directory: Path) -> dict[str, list[str]]:
    """What the simulated back end has, by kind."""
    root = directory / "agents" / "volume-sim"
    return {kind: sorted(os.listdir(root / kind)) for kind in NOTHING}


NOTHING: dict[str, list[str]] = {"volume": [], "snapshot": [], "backup": [], "export": [], "source": []}


async def left(cloud: TestCloud) -> dict[str, int]:
    """Rows that are there only while something of Block Storage is."""
    tables = (
        "volumes",
        "snapshots",
        "volume_backups",
        "volume_unmanaged",
        "attachments",
        "holders",
        "claims",
        "needs",
        "block_devices",
    )

    def count(tx: Any) -> dict[str, int]:
        kinds = "('volume', 'snapshot', 'backup', 'export')"
        where = {
            "holders": " where kind in ('volume', 'snapshot', 'backup', 'unmanaged')",
            "claims": f" where kind in {kinds}",
            "needs": f" where claim in (select id from claims where kind in {kinds})",
        }
        return {t: int(tx.value(f"select count(*) from {t}{where.get(t, '')}")) for t in tables}

    return {table: n for table, n in (await cloud.db.read(count)).items() if n}
