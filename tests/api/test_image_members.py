"""Sharing images with other projects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.app import reconciler
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

IMAGES = "/image/v2/images"


@pytest.fixture
async def cloud(db: Database) -> Any:
    async with test_cloud(db) as made:
        reconciler(db, made.config)
        yield made


async def new(cloud: TestCloud, **body: Any) -> str:
    response = await cloud.post(IMAGES, json=body)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


async def listed(cloud: TestCloud, query: str = "", as_: str = "other") -> list[str]:
    return [image["id"] for image in (await cloud.get(f"{IMAGES}?{query}", as_=as_)).json()["images"]]


async def test_share_and_accept(cloud: TestCloud) -> None:
    id = await new(cloud)
    members, other = f"{IMAGES}/{id}/members", cloud.project("other")
    response = await cloud.post(members, json={"member": other})
    assert response.status_code == 200
    member = response.json()
    assert member == {
        "member_id": other,
        "image_id": id,
        "status": "pending",
        "created_at": member["created_at"],
        "updated_at": member["updated_at"],
        "schema": "/v2/schemas/member",
    }
    # It can be used at once, but is on no list before it is accepted.
    assert (await cloud.get(f"{IMAGES}/{id}", as_="other")).status_code == 200
    assert await listed(cloud) == []
    assert await listed(cloud, "member_status=pending&visibility=shared") == [id]
    assert await listed(cloud, "member_status=all") == [id]
    response = await cloud.put(f"{members}/{other}", json={"status": "accepted"}, as_="other")
    assert response.status_code == 200
    assert response.json()["status"] == "accepted"
    assert await listed(cloud) == [id]
    await cloud.put(f"{members}/{other}", json={"status": "rejected"}, as_="other")
    assert await listed(cloud) == []
    assert (await cloud.get(members)).json() == {
        "members": [
            {
                **member,
                "status": "rejected",
                "updated_at": (await cloud.get(f"{members}/{other}")).json()["updated_at"],
            }
        ],
        "schema": "/v2/schemas/members",
    }
    assert (await cloud.delete(f"{members}/{other}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{id}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{members}/{other}")).status_code == 404


async def test_who_may_do_what(cloud: TestCloud) -> None:
    id = await new(cloud)
    members, other, admin = f"{IMAGES}/{id}/members", cloud.project("other"), cloud.project("admin")
    assert (await cloud.post(members, json={"member": other}, as_="reader")).status_code == 403
    assert (await cloud.post(members, json={"member": other}, as_="other")).status_code == 404
    await cloud.post(members, json={"member": other})
    await cloud.post(members, json={"member": admin})
    assert (await cloud.post(members, json={"member": other})).status_code == 409
    # A member shares it no further, and ends nobody's membership.
    assert (await cloud.post(members, json={"member": "third"}, as_="other")).status_code == 403
    assert (await cloud.delete(f"{members}/{other}", as_="other")).status_code == 403
    # Only a member answers, for itself.
    assert (await cloud.put(f"{members}/{other}", json={"status": "accepted"})).status_code == 403
    assert (await cloud.put(f"{members}/{admin}", json={"status": "accepted"}, as_="other")).status_code in (
        403,
        404,
    )
    # A member sees itself alone.
    assert [one["member_id"] for one in (await cloud.get(members, as_="other")).json()["members"]] == [other]
    assert (await cloud.get(f"{members}/{admin}", as_="other")).status_code == 404
    assert (await cloud.get(f"{members}/{other}", as_="other")).status_code == 200
    assert len((await cloud.get(members, as_="reader")).json()["members"]) == 2
    assert (await cloud.get(f"{members}/nobody")).status_code == 404


async def test_bodies(cloud: TestCloud) -> None:
    id = await new(cloud)
    members, other = f"{IMAGES}/{id}/members", cloud.project("other")
    for body in ({}, {"member": ""}, {"member": None}, {"member": 3}, [], {"member": "x" * 256}):
        assert (await cloud.post(members, json=body)).status_code == 400
    await cloud.post(members, json={"member": other})
    for body in ({}, {"status": "odd"}, {"status": None}, []):
        assert (await cloud.put(f"{members}/{other}", json=body, as_="other")).status_code == 400


async def test_only_shared_images_have_members(cloud: TestCloud) -> None:
    id = await new(cloud, visibility="private")
    members = f"{IMAGES}/{id}/members"
    assert (await cloud.post(members, json={"member": "x"})).status_code == 403
    assert (await cloud.get(members)).status_code == 403
    assert (await cloud.get(f"{members}/x")).status_code == 404


async def test_what_is_shared_no_more_is_not_there(cloud: TestCloud) -> None:
    id = await new(cloud)
    await cloud.post(f"{IMAGES}/{id}/members", json={"member": cloud.project("other")})
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    change = [{"op": "replace", "path": "/visibility", "value": "private"}]
    assert (await cloud.patch(f"{IMAGES}/{id}", json=change, headers=headers)).status_code == 200
    assert (await cloud.get(f"{IMAGES}/{id}", as_="other")).status_code == 404
    assert await listed(cloud, "member_status=all") == []


async def test_the_number_of_members_is_limited(cloud: TestCloud) -> None:
    id = await new(cloud)
    for i in range(128):
        assert (await cloud.post(f"{IMAGES}/{id}/members", json={"member": f"p{i}"})).status_code == 200
    assert (await cloud.post(f"{IMAGES}/{id}/members", json={"member": "one more"})).status_code == 413
