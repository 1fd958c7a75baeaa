"""Usage reports, the audit log, extensions, and what is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.api.test_hosts import make_host, make_server
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1"
HOUR = 3600.0


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


def text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def live(tx: Tx, project: str, start: float) -> str:
    """A server that runs since then."""
    host = tx.value("select id from agents where name = 'h1'") or make_host(tx, "h1")
    id = make_server(tx, host)
    tx.update("servers", id, project_id=project, launched_at=start)
    return id


def dead(tx: Tx, project: str, start: float, stop: float) -> str:
    """A server that ran from then to then."""
    id = tx.uuid()
    server = {
        "launched_at": start,
        "flavor": {"name": "f", "vcpus": 4, "ram": 100, "disk": 1, "ephemeral": 1},
    }
    tx.insert(
        "deleted_servers",
        id=id,
        project_id=project,
        name="dead",
        created_at=start,
        deleted_at=stop,
        server=server,
    )
    return id


async def report(cloud: TestCloud, path: str, version: str = "2.1", **query: Any) -> Any:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await cloud.get(
        f"{URL}/os-simple-tenant-usage{path}?{asked}", as_="admin", version=f"compute {version}"
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_hours_within_a_period(cloud: TestCloud) -> None:
    now = float(int(cloud.chance.now()))
    demo = cloud.project("demo")
    await cloud.db.write(live, demo, now - 10 * HOUR)
    await cloud.db.write(dead, demo, now - 8 * HOUR, now - 6 * HOUR)
    await cloud.db.write(dead, demo, now - 20 * HOUR, now - 18 * HOUR)
    usage = (await report(cloud, f"/{demo}", start=text(now - 9 * HOUR), end=text(now - 5 * HOUR)))[
        "tenant_usage"
    ]
    assert usage["total_hours"] == pytest.approx(4 + 2)
    assert usage["total_vcpus_usage"] == pytest.approx(2 * 4 + 4 * 2)
    assert usage["total_memory_mb_usage"] == pytest.approx(1024 * 4 + 100 * 2)
    assert usage["total_local_gb_usage"] == pytest.approx(11 * 4 + 2 * 2)
    states = sorted((one["state"], one["ended_at"] is None, one["hours"]) for one in usage["server_usages"])
    assert states == [("active", True, 4.0), ("terminated", False, 2.0)]
    assert (await report(cloud, f"/{demo}", start=text(now - 30 * HOUR), end=text(now - 25 * HOUR))) == {
        "tenant_usage": {}
    }


async def test_all_projects_in_pages_since_2_40(cloud: TestCloud) -> None:
    now = float(int(cloud.chance.now()))
    for project in ("demo", "other"):
        for _ in range(2):
            await cloud.db.write(live, cloud.project(project), now - 2 * HOUR)
    brief = await report(cloud, "", start=text(now - HOUR))
    assert {usage["tenant_id"] for usage in brief["tenant_usages"]} == {
        cloud.project("demo"), cloud.project("other"),
    }  # fmt: skip
    assert all("server_usages" not in usage for usage in brief["tenant_usages"])
    found, url = [], f"{URL}/os-simple-tenant-usage?limit=3&detailed=1&start={text(now - HOUR)}"
    while url:
        body = (await cloud.get(url, as_="admin", version="compute 2.40")).json()
        found += [one["instance_id"] for usage in body["tenant_usages"] for one in usage["server_usages"]]
        url = body["tenant_usages_links"][0]["href"] if "tenant_usages_links" in body else ""
    assert len(found) == len(set(found)) == 4


async def test_who_may_and_bad_periods(cloud: TestCloud) -> None:
    path = f"{URL}/os-simple-tenant-usage"
    assert (await cloud.get(path)).status_code == 403
    assert (await cloud.get(f"{path}/{cloud.project('demo')}", as_="reader")).status_code == 200
    assert (await cloud.get(f"{path}/{cloud.project('demo')}", as_="other")).status_code == 403
    for query in ("start=x", "end=2020-13-01T00:00:00", "start=2020-01-02T00:00:00&end=2020-01-01T00:00:00"):
        assert (await cloud.get(f"{path}?{query}", as_="admin")).status_code == 400
    assert (await cloud.get(f"{path}/", as_="admin")).status_code == 404
    assert (await cloud.get(f"{path}?marker=x", as_="admin", version="compute 2.40")).status_code == 400


async def test_the_audit_log_says_that_nothing_ran(cloud: TestCloud) -> None:
    await cloud.db.write(make_host, "h1")
    path = f"{URL}/os-instance_usage_audit_log"
    log = (await cloud.get(path, as_="admin")).json()["instance_usage_audit_logs"]
    assert (log["num_hosts"], log["num_hosts_not_run"], log["hosts_not_run"]) == (1, 1, ["h1"])
    shown = (await cloud.get(f"{path}/2026-03-15 10:00:00", as_="admin")).json()["instance_usage_audit_log"]
    assert (shown["period_beginning"], shown["period_ending"]) == (
        "2026-02-01 00:00:00",
        "2026-03-01 00:00:00",
    )
    assert (await cloud.get(f"{path}/yesterday", as_="admin")).status_code == 400
    assert (await cloud.get(path)).status_code == 403


async def test_extensions(cloud: TestCloud) -> None:
    listed = (await cloud.get(f"{URL}/extensions")).json()["extensions"]
    assert "Hosts" in [one["name"] for one in listed]
    shown = (await cloud.get(f"{URL}/extensions/os-consoles")).json()["extension"]
    assert shown in listed
    assert (await cloud.get(f"{URL}/extensions/os-cells")).status_code == 404


async def test_what_is_gone(cloud: TestCloud) -> None:
    assert (await cloud.get(f"{URL}/os-agents", as_="admin")).status_code == 410
    assert (await cloud.client.get(f"{URL}/os-agents")).status_code == 401
