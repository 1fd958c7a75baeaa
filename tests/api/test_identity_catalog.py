"""Regions, services, endpoints, what a project sees of them; policy documents; domain configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.core.bootstrap import DOMAIN, fixed
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

V3 = "/identity/v3"
COMPUTE = fixed("service", "compute")


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def send(cloud: TestCloud, method: str, path: str, status: int, **body: Any) -> Any:
    response = await cloud.request(method, f"{V3}/{path}", as_="admin", **({"json": body} if body else {}))
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def test_regions(cloud: TestCloud) -> None:
    region = (await send(cloud, "POST", "regions", 201, region={"id": "r", "description": "d", "mine": 1}))[
        "region"
    ]
    assert region == {
        "id": "r", "description": "d", "parent_region_id": None, "mine": 1,
        "links": {"self": f"http://cloud{V3}/regions/r"},
    }  # fmt: skip
    await send(cloud, "POST", "regions", 409, region={"id": "r"})
    assert len((await send(cloud, "POST", "regions", 201, region={}))["region"]["id"]) == 32
    await send(cloud, "PUT", "regions/s", 201, region={"parent_region_id": "r"})
    await send(cloud, "PUT", "regions/t", 400, region={"id": "u"})
    await send(cloud, "PUT", "regions/t", 404, region={"parent_region_id": "none"})
    await send(cloud, "PATCH", "regions/r", 400, region={"parent_region_id": "s"})
    await send(cloud, "PATCH", "regions/r", 404, region={"parent_region_id": "none"})
    assert (await send(cloud, "PATCH", "regions/r", 200, region={"description": None}))["region"][
        "description"
    ] == ""
    below = (await send(cloud, "GET", "regions?parent_region_id=r", 200))["regions"]
    assert [one["id"] for one in below] == ["s"]
    await send(cloud, "DELETE", "regions/RegionOne", 403)
    await send(cloud, "DELETE", "regions/r", 204)
    await send(cloud, "GET", "regions/s", 404)
    assert (await cloud.get(f"{V3}/regions", as_="demo")).status_code == 200
    assert (await cloud.delete(f"{V3}/regions/RegionOne", as_="demo")).status_code == 403


async def test_services_and_endpoints(cloud: TestCloud) -> None:
    service = (await send(cloud, "POST", "services", 201, service={"type": "dns", "name": "n"}))["service"]
    assert service == {
        "id": service["id"], "type": "dns", "name": "n", "enabled": True,
        "links": {"self": f"http://cloud{V3}/services/{service['id']}"},
    }  # fmt: skip
    path = f"services/{service['id']}"
    changed = await send(cloud, "PATCH", path, 200, service={"description": "d"})
    assert changed["service"] == {**service, "description": "d"}
    assert len((await send(cloud, "GET", "services?type=dns", 200))["services"]) == 1
    await send(cloud, "POST", "services", 400, service={"name": "n"})
    wanted = {
        "service_id": service["id"],
        "interface": "public",
        "url": "http://dns/$(project_id)s",
        "region": "new",
    }
    endpoint = (await send(cloud, "POST", "endpoints", 201, endpoint=wanted))["endpoint"]
    assert endpoint == {
        "id": endpoint["id"], "service_id": service["id"], "interface": "public", "region_id": "new", "region": "new",
        "url": "http://dns/$(project_id)s", "enabled": True,
        "links": {"self": f"http://cloud{V3}/endpoints/{endpoint['id']}"},
    }  # fmt: skip
    await send(cloud, "GET", "regions/new", 200)
    for wrong in (
        {"service_id": "none"}, {"region": None, "region_id": "none"}, {"interface": "x"}, {"url": "no"},
        {"url": "http://x/$(secret)s"}, {"enabled": "True"},
    ):  # fmt: skip
        await send(cloud, "POST", "endpoints", 400, endpoint={**wanted, **wrong})
    catalog = await seen(cloud)
    assert catalog["dns"] == [f"http://dns/{cloud.project('demo')}"]
    await send(cloud, "PATCH", f"endpoints/{endpoint['id']}", 200, endpoint={"enabled": False})
    assert (await seen(cloud))["dns"] == []
    found = (await send(cloud, "GET", f"endpoints?service_id={COMPUTE}&interface=admin", 200))["endpoints"]
    assert [one["url"] for one in found] == ["http://cloud/compute/v2.1"]
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", f"endpoints/{endpoint['id']}", 404)
    assert "dns" not in await seen(cloud)
    assert (await cloud.get(f"{V3}/services", as_="demo")).status_code == 403
    assert (await cloud.get(f"{V3}/services", as_="system_reader")).status_code == 200


async def seen(cloud: TestCloud) -> dict[str, list[str]]:
    """The catalogue of the project demo: addresses by type."""
    catalog = (await cloud.get(f"{V3}/auth/catalog", as_="demo")).json()["catalog"]
    return {service["type"]: [one["url"] for one in service["endpoints"]] for service in catalog}


async def test_the_catalogue_follows_the_address_that_the_client_used(cloud: TestCloud) -> None:
    response = await cloud.get(f"{V3}/auth/catalog", as_="demo", headers={"Host": "elsewhere:81"})
    urls = {one["url"] for service in response.json()["catalog"] for one in service["endpoints"]}
    assert all(url.startswith("http://elsewhere:81/") for url in urls)
    assert (await cloud.get(f"{V3}/auth/catalog", as_="system")).status_code == 403


async def test_a_project_can_be_shown_less(cloud: TestCloud) -> None:
    project = cloud.project("demo")
    endpoint = (await send(cloud, "GET", f"endpoints?service_id={COMPUTE}&interface=public", 200))[
        "endpoints"
    ][0]["id"]
    path = f"OS-EP-FILTER/projects/{project}/endpoints"
    await send(cloud, "HEAD", f"{path}/{endpoint}", 404)
    await send(cloud, "PUT", f"{path}/{endpoint}", 204)
    await send(cloud, "HEAD", f"{path}/{endpoint}", 204)
    assert await seen(cloud) == {"compute": ["http://cloud/compute/v2.1"]}
    assert [one["id"] for one in (await send(cloud, "GET", path, 200))["endpoints"]] == [endpoint]
    found = (await send(cloud, "GET", f"OS-EP-FILTER/endpoints/{endpoint}/projects", 200))["projects"]
    assert [one["id"] for one in found] == [project]
    await send(cloud, "DELETE", f"{path}/{endpoint}", 204)
    await send(cloud, "DELETE", f"{path}/{endpoint}", 404)
    assert len(await seen(cloud)) == 7


async def test_endpoint_groups(cloud: TestCloud) -> None:
    project = cloud.project("demo")
    wanted = {"name": "g", "description": "d", "filters": {"interface": "admin", "service_id": COMPUTE}}
    group = (await send(cloud, "POST", "OS-EP-FILTER/endpoint_groups", 201, endpoint_group=wanted))[
        "endpoint_group"
    ]
    path = f"OS-EP-FILTER/endpoint_groups/{group['id']}"
    assert group == {**wanted, "id": group["id"], "links": {"self": f"http://cloud{V3}/{path}"}}
    for wrong in ({"filters": {}}, {"filters": {"x": 1}}, {"name": ""}):
        await send(cloud, "POST", "OS-EP-FILTER/endpoint_groups", 400, endpoint_group={**wanted, **wrong})
    await send(cloud, "HEAD", path, 200)
    assert len((await send(cloud, "GET", f"{path}/endpoints", 200))["endpoints"]) == 1
    await send(cloud, "PUT", f"{path}/projects/{project}", 204)
    await send(cloud, "HEAD", f"{path}/projects/{project}", 200)
    assert await seen(cloud) == {"compute": ["http://cloud/compute/v2.1"]}
    listed = (await send(cloud, "GET", f"OS-EP-FILTER/projects/{project}/endpoint_groups", 200))[
        "endpoint_groups"
    ]
    assert listed == [group]
    assert [p["id"] for p in (await send(cloud, "GET", f"{path}/projects", 200))["projects"]] == [project]
    changed = await send(cloud, "PATCH", path, 200, endpoint_group={"filters": {"interface": "public"}})
    assert changed["endpoint_group"]["filters"] == {"interface": "public"}
    assert len(await seen(cloud)) == 7
    await send(cloud, "DELETE", f"{path}/projects/{project}", 204)
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", path, 404)
    assert (await send(cloud, "GET", "OS-EP-FILTER/endpoint_groups", 200))["endpoint_groups"] == []


async def test_policy_documents(cloud: TestCloud) -> None:
    policy = (await send(cloud, "POST", "policies", 201, policy={"type": "application/json", "blob": "{}"}))[
        "policy"
    ]
    path = f"policies/{policy['id']}"
    assert policy == {
        "id": policy["id"], "type": "application/json", "blob": "{}", "links": {"self": f"http://cloud{V3}/{path}"},
    }  # fmt: skip
    assert (await send(cloud, "PATCH", path, 200, policy={"type": "x"}))["policy"]["type"] == "x"
    assert [p["id"] for p in (await send(cloud, "GET", "policies?type=x", 200))["policies"]] == [policy["id"]]
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", path, 404)
    await send(cloud, "POST", "policies", 400, policy={"type": "x"})


async def test_domain_configuration(cloud: TestCloud) -> None:
    path = f"domains/{DOMAIN}/config"
    await send(cloud, "GET", path, 404)
    config = {"identity": {"driver": "ldap"}, "ldap": {"url": "ldap://x", "password": "hidden"}}
    shown = {"identity": {"driver": "ldap"}, "ldap": {"url": "ldap://x"}}
    assert await send(cloud, "PUT", path, 201, config=config) == {"config": shown}
    assert await send(cloud, "PUT", path, 200, config=config) == {"config": shown}
    assert await send(cloud, "GET", path, 200) == {"config": shown}
    assert await send(cloud, "GET", f"{path}/ldap", 200) == {"config": {"ldap": {"url": "ldap://x"}}}
    assert await send(cloud, "GET", f"{path}/ldap/url", 200) == {"config": {"url": "ldap://x"}}
    await send(cloud, "GET", f"{path}/ldap/password", 404)
    changed = await send(cloud, "PATCH", f"{path}/identity", 200, config={"identity": {"list_limit": 5}})
    assert changed["config"]["identity"] == {"driver": "ldap", "list_limit": 5}
    changed = await send(cloud, "PATCH", f"{path}/ldap/url", 200, config={"url": "ldap://y"})
    assert changed["config"]["ldap"] == {"url": "ldap://y"}
    await send(cloud, "PATCH", f"{path}/ldap/user", 404, config={"user": "u"})
    for wrong in ({}, {"what": {"x": 1}}, {"ldap": {"what": 1}}, {"ldap": 1}):
        await send(cloud, "PATCH", path, 403, config=wrong)
    await send(cloud, "DELETE", f"{path}/ldap/url", 204)
    await send(cloud, "GET", f"{path}/ldap/url", 404)
    await send(cloud, "DELETE", f"{path}/identity", 204)
    await send(cloud, "GET", f"{path}/identity", 404)
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", path, 404)
    default = (await send(cloud, "GET", "domains/config/default", 200))["config"]
    assert set(default) == {"identity", "ldap"}
    assert await send(cloud, "GET", "domains/config/identity/driver/default", 200) == {
        "config": {"driver": "sql"}
    }
    assert set((await send(cloud, "GET", "domains/config/ldap/default", 200))["config"]) == {"ldap"}
    response = await cloud.get(f"{V3}/{path}/security_compliance", as_="demo")
    assert set(response.json()["config"]["security_compliance"]) == {
        "password_regex",
        "password_regex_description",
    }


async def test_federation_has_no_providers(cloud: TestCloud) -> None:
    assert (await send(cloud, "GET", "OS-FEDERATION/service_providers", 200))["service_providers"] == []


async def test_what_a_token_could_be_scoped_to(cloud: TestCloud) -> None:
    async def names(what: str, who: str) -> list[str]:
        return [one["name"] for one in (await cloud.get(f"{V3}/auth/{what}", as_=who)).json()[what]]

    assert await names("projects", "unscoped") == ["demo"]
    assert await names("domains", "unscoped") == []
    assert await names("domains", "admin") == ["Default"]
    assert (await cloud.get(f"{V3}/auth/system", as_="admin")).json()["system"] == [{"all": True}]
    assert (await cloud.get(f"{V3}/auth/system", as_="demo")).json()["system"] == []
    assert (await cloud.get(f"{V3}/auth/projects", as_=None)).status_code == 401
