"""What the tests of the Network API share: making things, and reading errors."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2

from cumulet.db.engine import Database
from tests.cloud import TestCloud, test_cloud

BASE = "/network/v2.0"


def bare_cloud(db: Database) -> AbstractAsyncContextManager[TestCloud]:
    """A cloud without any network."""
    return test_cloud(db, seeds=())


async def make(cloud: TestCloud, noun: str, as_: str = "demo", path: str = "", **body: Any) -> dict[str, Any]:
    """Create a resource that must be made; ``body`` are its attributes."""
    response = await cloud.post(f"{BASE}/{path or noun + 's'}", as_=as_, json={noun: body})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()[noun]
    return found


async def net(cloud: TestCloud, cidr: str = "10.1.0.0/24", as_: str = "demo", **body: Any) -> tuple[str, str]:
    """A network with one subnet; returns both ids."""
    network = await make(cloud, "network", as_)
    subnet = await make(
        cloud, "subnet", as_, network_id=network["id"], cidr=cidr, **{"ip_version": 4, **body}
    )
    return network["id"], subnet["id"]


def problem(response: httpx2.Response) -> tuple[int, str]:
    """Status and type of an error."""
    return response.status_code, response.json()["NeutronError"]["type"]


async def ids(cloud: TestCloud, path: str, as_: str = "demo") -> list[str]:
    """The ids of a list."""
    response = await cloud.get(f"{BASE}/{path}", as_=as_)
    assert response.status_code == 200, response.text
    rows = next(value for name, value in response.json().items() if not name.endswith("_links"))
    return [row["id"] for row in rows]
