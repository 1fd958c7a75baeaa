"""What administrators see of Block Storage, what anybody may know of it, and its quotas."""

from __future__ import annotations

import pytest
from tests.cloud import TestCloud
from tests.volumes import NEWEST, ROOT, SNAPSHOTS, VOLUMES, ask, snapshot, volume

pytestmark = pytest.mark.anyio
ADMIN = {"as_": "admin"}


async def test_version_documents_need_no_token(cloud: TestCloud) -> None:
    for path, status in (("/volume", 300), ("/volume/", 300), ("/volume/v3", 200), ("/volume/v3/", 200)):
        response = await cloud.get(path, as_=None)
        assert response.status_code == status
        (version,) = response.json()["versions"]
        assert (version["id"], version["min_version"], version["version"]) == ("v3.0", "3.0", "3.71")
        assert {"rel": "self", "href": "http://cloud/volume/v3/"} in version["links"]


async def test_services_and_hosts(cloud: TestCloud) -> None:
    await volume(cloud)  # its back end was heard of
    found = (await ask(cloud, "GET", f"{ROOT}/os-services", 200, version="volume 3.7", **ADMIN))["services"]
    assert [(one["binary"], one["host"], one["state"], one["status"]) for one in found] == [
        ("cinder-scheduler", "cumulet", "up", "enabled"),
        ("cinder-volume", "sim@sim", "up", "enabled"),
        ("cinder-backup", "sim", "up", "enabled"),
    ]
    assert found[1]["frozen"] is False
    assert "cluster" in found[1]
    for query in ("host=sim&binary=cinder-volume", "host=sim@sim", "binary=cinder-volume"):
        one = (await ask(cloud, "GET", f"{ROOT}/os-services?{query}", 200, **ADMIN))["services"]
        assert [service["host"] for service in one] == ["sim@sim"]
        assert "cluster" not in one[0]
    await ask(cloud, "GET", f"{ROOT}/os-services", 403)
    hosts = (await ask(cloud, "GET", f"{ROOT}/os-hosts", 200, **ADMIN))["hosts"]
    assert [host["host_name"] for host in hosts] == ["cumulet", "sim@sim", "sim"]
    taken = await volume(cloud, size=2)
    await snapshot(cloud, taken["id"])
    usage = (await ask(cloud, "GET", f"{ROOT}/os-hosts/sim@sim", 200, **ADMIN))["host"]
    assert [one["resource"]["project"] for one in usage] == ["(total)", cloud.project("demo")]
    for one in usage:
        assert one["resource"]["volume_count"] == "2"
        assert one["resource"]["total_volume_gb"] == "3"
        assert one["resource"]["total_snapshot_gb"] == "2"
    await ask(cloud, "GET", f"{ROOT}/os-hosts/cumulet", 404, **ADMIN)


async def test_a_back_end_out_of_use_takes_nothing_new(cloud: TestCloud) -> None:
    path = f"{ROOT}/os-services"
    body = {"host": "sim@sim", "binary": "cinder-volume"}
    answer = await ask(cloud, "PUT", f"{path}/disable", 200, json=body, **ADMIN)
    assert answer == {**body, "service": "cinder-volume", "disabled": True, "status": "disabled"}
    refused = await volume(cloud, status="error")
    assert refused["os-vol-host-attr:host"] is None
    reason = {**body, "disabled_reason": "maintenance"}
    answer = await ask(cloud, "PUT", f"{path}/disable-log-reason", 200, json=reason, **ADMIN)
    assert answer["disabled_reason"] == "maintenance"
    await ask(cloud, "PUT", f"{path}/disable-log-reason", 400, json=body, **ADMIN)
    await ask(cloud, "PUT", f"{path}/disable", 404, json={**body, "host": "x"}, **ADMIN)
    await ask(
        cloud, "PUT", f"{path}/disable", 400, json={"host": "cumulet", "binary": "cinder-scheduler"}, **ADMIN
    )
    await ask(cloud, "PUT", f"{path}/disable", 403, json=body)
    answer = await ask(cloud, "PUT", f"{path}/enable", 200, json=body, **ADMIN)
    assert (answer["disabled"], answer["disabled_reason"]) == (False, None)
    await volume(cloud)


async def test_on_a_frozen_back_end_nothing_is_made_or_removed(cloud: TestCloud) -> None:
    made = await volume(cloud)
    taken = await snapshot(cloud, made["id"])
    body = {"host": "sim@sim"}
    for verb in ("freeze", "thaw"):
        await ask(cloud, "PUT", f"{ROOT}/os-services/{verb}", 400, json={"host": "nowhere"}, **ADMIN)
    await ask(cloud, "PUT", f"{ROOT}/os-services/freeze", 200, json=body, **ADMIN)
    await ask(cloud, "PUT", f"{ROOT}/os-services/freeze", 400, json=body, **ADMIN)
    (service,) = (await ask(cloud, "GET", f"{ROOT}/os-services?host=sim&binary=cinder-volume", 200, **ADMIN))[
        "services"
    ]
    assert service["frozen"] is True
    await volume(cloud, status="error")
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 400)
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}?cascade=1", 400)
    await ask(cloud, "POST", SNAPSHOTS, 400, json={"snapshot": {"volume_id": made["id"]}})
    await ask(cloud, "PUT", f"{ROOT}/os-services/thaw", 200, json=body, **ADMIN)
    await ask(cloud, "PUT", f"{ROOT}/os-services/thaw", 400, json=body, **ADMIN)
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}?cascade=1", 202)


async def test_pools_and_capabilities(cloud: TestCloud) -> None:
    await volume(cloud, size=5)
    path = f"{ROOT}/scheduler-stats/get_pools"
    assert await ask(cloud, "GET", path, 200, **ADMIN) == {"pools": [{"name": "sim@sim#sim"}]}
    (pool,) = (await ask(cloud, "GET", f"{path}?detail=True", 200, **ADMIN))["pools"]
    told = pool["capabilities"]
    assert told["total_capacity_gb"] - told["free_capacity_gb"] == told["allocated_capacity_gb"] == 5
    assert (await ask(cloud, "GET", f"{path}?name=x", 200, version="volume 3.28", **ADMIN))["pools"] == []
    await ask(cloud, "GET", path, 403)
    for host in ("sim@sim", "sim@sim%23sim"):
        found = await ask(cloud, "GET", f"{ROOT}/capabilities/{host}", 200, **ADMIN)
        assert found["volume_backend_name"] == told["volume_backend_name"] == "sim"
        assert found["vendor_name"] == told["vendor_name"] == "Open Source"
        assert found["namespace"] == "OS::Storage::Capabilities::sim@sim"
    await ask(cloud, "GET", f"{ROOT}/capabilities/x", 404, **ADMIN)


async def test_what_anybody_may_know(cloud: TestCloud) -> None:
    zones = await ask(cloud, "GET", f"{ROOT}/os-availability-zone", 200)
    assert zones == {"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]}
    aliases = {one["alias"] for one in (await ask(cloud, "GET", f"{ROOT}/extensions", 200))["extensions"]}
    assert {"os-hosts", "os-services", "os-vol-tenant-attr"} <= aliases
    one = (await ask(cloud, "GET", f"{ROOT}/extensions/os-hosts", 200))["extension"]
    assert one["name"] == "Hosts"
    filters = await ask(
        cloud, "GET", f"{ROOT}/resource_filters?resource=snapshot", 200, version="volume 3.33"
    )
    assert [found["resource"] for found in filters["resource_filters"]] == ["snapshot"]
    await ask(cloud, "GET", f"{ROOT}/resource_filters", 404)
    await ask(cloud, "GET", f"{ROOT}/extensions", 401, as_=None)


async def test_quota_sets_and_limits(cloud: TestCloud) -> None:
    project = cloud.project("demo")
    path = f"{ROOT}/os-quota-sets/{project}"
    defaults = (await ask(cloud, "GET", f"{path}/defaults", 200))["quota_set"]
    assert defaults["id"] == project
    assert (defaults["volumes"], defaults["gigabytes"], defaults["volumes_standard"]) == (10, 1000, -1)
    await volume(cloud, size=3)
    changed = await ask(cloud, "PUT", path, 200, json={"quota_set": {"volumes": "5", "groups": 2}}, **ADMIN)
    assert "id" not in changed["quota_set"]
    shown = (await ask(cloud, "GET", path, 200))["quota_set"]
    assert (shown["volumes"], shown["groups"], shown["gigabytes"]) == (5, 2, 1000)
    for body in ({}, {"volumes": -2}, {"volumes": "x"}, {"nonsense": 1}, {"volumes": True}, {"gigabytes": 2}):
        await ask(cloud, "PUT", path, 400, json={"quota_set": body}, **ADMIN)
    await ask(cloud, "PUT", path, 403, json={"quota_set": {"volumes": 1}})
    await ask(cloud, "GET", path, 403, as_="other")
    limits = (await ask(cloud, "GET", f"{ROOT}/limits", 200))["limits"]
    assert limits["rate"] == []
    assert limits["absolute"]["maxTotalVolumes"] == 5
    assert limits["absolute"]["totalVolumesUsed"] == 1
    assert limits["absolute"]["totalGigabytesUsed"] == 3
    query = f"{ROOT}/limits?project_id={project}"
    other = (await ask(cloud, "GET", query, 200, version=NEWEST, **ADMIN))["limits"]
    assert other["absolute"]["totalVolumesUsed"] == 1
    mine = (await ask(cloud, "GET", query, 200, as_="other", version=NEWEST))["limits"]
    assert mine["absolute"]["totalVolumesUsed"] == 0
    assert (await cloud.delete(path, **ADMIN)).status_code == 200
    assert (await ask(cloud, "GET", path, 200))["quota_set"]["volumes"] == 10


async def test_quota_classes(cloud: TestCloud) -> None:
    path = f"{ROOT}/os-quota-class-sets/default"
    shown = (await ask(cloud, "GET", path, 200, **ADMIN))["quota_class_set"]
    assert (shown["id"], shown["volumes"]) == ("default", 10)
    changed = await ask(cloud, "PUT", path, 200, json={"quota_class_set": {"volumes": 3}}, **ADMIN)
    assert changed["quota_class_set"]["volumes"] == 3
    quota = await ask(cloud, "GET", f"{ROOT}/os-quota-sets/{cloud.project('demo')}", 200)
    assert quota["quota_set"]["volumes"] == 3
    await ask(cloud, "PUT", path, 400, json={"quota_class_set": {"nonsense": 3}}, **ADMIN)
    await ask(cloud, "GET", path, 403)
