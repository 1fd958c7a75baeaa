"""What the catalogue's lists count, while servers come and go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, until
from tests.servers import NEWEST, boot, make_image, post, remove

pytestmark = pytest.mark.anyio

ROOT = "/compute/v2.1"


async def get(cloud: TestCloud, path: str, who: str = "admin", version: str = NEWEST) -> Any:
    answer = await cloud.get(path, as_=who, version=version)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def used(cloud: TestCloud) -> dict[str, int]:
    """What the demo project uses, by each of the places that count it."""
    project = cloud.project("demo")
    limits = (await get(cloud, f"{ROOT}/limits", "demo"))["limits"]["absolute"]
    detail = (await get(cloud, f"{ROOT}/os-quota-sets/{project}/detail", "demo"))["quota_set"]
    usages = await get(cloud, f"/placement/usages?project_id={project}", version="placement 1.37")
    hypervisors = (await get(cloud, f"{ROOT}/os-hypervisors/detail", version="compute 2.87"))["hypervisors"]
    statistics = (await get(cloud, f"{ROOT}/os-hypervisors/statistics", version="compute 2.87"))[
        "hypervisor_statistics"
    ]
    return {
        "limits": limits["totalInstancesUsed"],
        "limits ram": limits["totalRAMUsed"],
        "quota": detail["instances"]["in_use"],
        "quota ram": detail["ram"]["in_use"],
        "placement ram": usages["usages"].get("MEMORY_MB", 0),
        "hypervisors": sum(one["running_vms"] for one in hypervisors),
        "statistics": statistics["running_vms"],
        "cores": limits["totalCoresUsed"],
    }


async def test_everything_counts_the_same(cloud: TestCloud) -> None:
    nothing = dict.fromkeys(await used(cloud), 0)
    assert await used(cloud) == nothing
    image = await make_image(cloud)
    ids = [await boot(cloud, imageRef=image) for _ in range(2)]
    assert await used(cloud) == {
        "limits": 2, "limits ram": 256, "quota": 2, "quota ram": 256, "placement ram": 256, "hypervisors": 2,
        "statistics": 2, "cores": 2,
    }  # fmt: skip
    listed = (await get(cloud, f"{ROOT}/os-hypervisors?with_servers=true"))["hypervisors"]
    found = {one["uuid"] for hypervisor in listed for one in hypervisor.get("servers", [])}
    assert found == set(ids)
    usage = await get(
        cloud, f"{ROOT}/os-simple-tenant-usage/{cloud.project('demo')}?start=2020-01-01T00:00:00", "demo"
    )
    assert {one["instance_id"] for one in usage["tenant_usage"]["server_usages"]} == set(ids)
    for id in ids:
        await remove(cloud, id)
    await until(lambda: same(cloud, nothing))
    usage = await get(
        cloud, f"{ROOT}/os-simple-tenant-usage/{cloud.project('demo')}?start=2020-01-01T00:00:00", "demo"
    )
    assert {one["state"] for one in usage["tenant_usage"]["server_usages"]} == {"terminated"}


async def same(cloud: TestCloud, wanted: dict[str, int]) -> bool:
    return await used(cloud) == wanted


async def test_hosts_with_servers_stay(cloud: TestCloud) -> None:
    id = await boot(cloud, imageRef=await make_image(cloud))
    server = (await get(cloud, f"{ROOT}/servers/{id}"))["server"]
    name = server["OS-EXT-SRV-ATTR:host"]
    services = (await get(cloud, f"{ROOT}/os-services?binary=nova-compute&host={name}"))["services"]
    path = f"{ROOT}/os-services/{services[0]['id']}"
    refused = await cloud.delete(path, as_="admin", version=NEWEST)
    assert refused.status_code == 409
    provider = await get(cloud, f"/placement/resource_providers?name={name}")
    allocations = await get(
        cloud,
        f"/placement/resource_providers/{provider['resource_providers'][0]['uuid']}/allocations",
    )
    assert set(allocations["allocations"]) == {id}
    await remove(cloud, id)
    assert (await cloud.delete(path, as_="admin", version=NEWEST)).status_code == 204
    left = (await get(cloud, f"{ROOT}/os-services?binary=nova-compute"))["services"]
    assert name not in {one["host"] for one in left}


async def test_servers_go_to_the_hosts_of_their_zone(cloud: TestCloud) -> None:
    services = (await get(cloud, f"{ROOT}/os-services?binary=nova-compute"))["services"]
    body = {"aggregate": {"name": "a", "availability_zone": "east"}}
    made = await cloud.post(f"{ROOT}/os-aggregates", as_="admin", json=body)
    action = {"add_host": {"host": services[0]["host"]}}
    answer = await cloud.post(
        f"{ROOT}/os-aggregates/{made.json()['aggregate']['id']}/action", as_="admin", json=action
    )
    assert answer.status_code == 200
    image = await make_image(cloud)
    id = await boot(cloud, imageRef=image, availability_zone="east")
    server = (await get(cloud, f"{ROOT}/servers/{id}"))["server"]
    assert server["OS-EXT-SRV-ATTR:host"] == services[0]["host"]
    assert server["OS-EXT-AZ:availability_zone"] == "east"
    disable = {"status": "disabled", "disabled_reason": "closed"}
    answer = await cloud.put(
        f"{ROOT}/os-services/{services[0]['id']}", as_="admin", json=disable, version=NEWEST
    )
    assert answer.status_code == 200
    assert (await post(cloud, imageRef=image, availability_zone="east")).status_code == 400
