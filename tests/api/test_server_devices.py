"""Volumes and interfaces of servers: plugged in, unplugged, refused, and what is left when something fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, until
from tests.servers import (
    NEWEST,
    URL,
    act,
    attachments,
    boot,
    make_volume,
    private,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults

pytestmark = pytest.mark.anyio


async def attach(cloud: TestCloud, id: str, volume: str, *, version: str = NEWEST, **more: Any) -> Any:
    body = {"volumeAttachment": {"volumeId": volume, **more}}
    return await cloud.post(f"{URL}/{id}/os-volume_attachments", json=body, version=version)


async def _has_devices(cloud: TestCloud, id: str, *parts: str) -> bool:
    """True if the guest has these devices, as its agent saw them."""
    facts = await cloud.db.read(
        lambda tx: tx.value("select facts from claims where holder = :id and kind = 'guest'", id=id)
    )
    return list(facts["devices"]) == list(parts)


async def test_a_volume_is_attached_and_detached(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    id = await boot(cloud, imageRef=image)
    before = await settled(cloud)
    answer = await attach(cloud, id, volume, tag="data", delete_on_termination=True)
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "volumeAttachment": {
                "id": volume, "serverId": id, "volumeId": volume, "device": "/dev/vdb", "tag": "data",
                "delete_on_termination": True,
            }
        },
    )  # fmt: skip
    await until(lambda: _has(cloud, volume, "attached"))
    (attachment,) = await attachments(cloud, volume)
    await until(lambda: _has_devices(cloud, id, attachment["id"]))
    shown = (await cloud.get(f"{URL}/{id}/os-volume_attachments/{volume}", version=NEWEST)).json()
    assert set(shown["volumeAttachment"]) == {
        "serverId", "volumeId", "device", "tag", "delete_on_termination", "attachment_id", "bdm_uuid",
    }  # fmt: skip
    assert shown["volumeAttachment"]["attachment_id"] == attachment["id"]
    old = (await cloud.get(f"{URL}/{id}/os-volume_attachments")).json()["volumeAttachments"]
    assert old == [{"id": volume, "serverId": id, "volumeId": volume, "device": "/dev/vdb"}]
    volumes = (await show(cloud, id))["os-extended-volumes:volumes_attached"]
    assert volumes == [{"id": volume, "delete_on_termination": True}]
    assert (await attach(cloud, id, volume)).status_code == 400
    other = await boot(cloud, imageRef=image, name="other")
    refused = await attach(cloud, other, volume)
    assert refused.status_code == 400
    assert id in refused.text
    await remove(cloud, other)
    assert (await cloud.delete(f"{URL}/{id}/os-volume_attachments/{volume}")).status_code == 202
    await until(lambda: _has(cloud, volume))
    await until(lambda: _has_devices(cloud, id))
    await wait_for_everything(cloud, before)
    assert (await cloud.delete(f"{URL}/{id}/os-volume_attachments/{volume}")).status_code == 404
    assert (await cloud.get(f"{URL}/{id}/os-volume_attachments/{volume}")).status_code == 404
    actions = (await cloud.get(f"{URL}/{id}/os-instance-actions")).json()["instanceActions"]
    assert [one["action"] for one in actions] == ["detach_volume", "attach_volume", "create"]
    for one in actions:
        shown = (
            await cloud.get(f"{URL}/{id}/os-instance-actions/{one['request_id']}", version=NEWEST)
        ).json()
        assert [event["result"] for event in shown["instanceAction"]["events"]] == ["Success"]


async def _has(cloud: TestCloud, volume: str, *statuses: str) -> bool:
    return [one["status"] for one in await attachments(cloud, volume)] == list(statuses)


async def test_the_answer_to_an_attach_is_empty_since_2_101(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    id = await boot(cloud, imageRef=image)
    answer = await attach(cloud, id, volume, version="compute 2.101")
    assert (answer.status_code, answer.content) == (202, b"")
    await until(lambda: _has(cloud, volume, "attached"))


async def test_what_cannot_be_attached_or_detached(cloud: TestCloud, image: str) -> None:
    id = await boot(
        cloud,
        block_device_mapping_v2=[
            {
                "source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 1,
                "boot_index": 0, "delete_on_termination": True,
            }
        ],
    )  # fmt: skip
    root = (await show(cloud, id))["os-extended-volumes:volumes_attached"][0]["id"]
    assert (await cloud.delete(f"{URL}/{id}/os-volume_attachments/{root}")).status_code == 400
    foreign = await make_volume(cloud, project="other")
    assert (await attach(cloud, id, foreign)).status_code == 404
    assert (await attach(cloud, id, "00000000-0000-0000-0000-000000000000")).status_code == 404
    broken = await make_volume(cloud)
    await cloud.db.write(lambda tx: tx.update("volumes", broken, status="error"))
    assert (await attach(cloud, id, broken)).status_code == 400
    volume = await make_volume(cloud)
    for more in (
        {"device": "moon"},
        {"device": "/dev/vdb 1"},
        {"tag": "a/b"},
        {"unknown": 1},
        {"volumeId": "x"},
    ):
        assert (await attach(cloud, id, volume, **more)).status_code == 400, more
    assert (await attach(cloud, id, volume, version="compute 2.48", tag="t")).status_code == 400
    assert (
        await attach(cloud, id, volume, version="compute 2.78", delete_on_termination=True)
    ).status_code == 400
    await act(cloud, id, "lock")
    assert (await attach(cloud, id, volume)).status_code == 409
    await act(cloud, id, "unlock")
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    assert (await attach(cloud, id, volume, version="compute 2.19")).status_code == 409
    assert (await attach(cloud, id, volume, tag="t")).status_code == 400
    assert await attachments(cloud, volume) == []


async def test_a_changed_attachment(cloud: TestCloud, image: str) -> None:
    volume, another = await make_volume(cloud), await make_volume(cloud)
    id = await boot(cloud, imageRef=image)
    await attach(cloud, id, volume, device="/dev/vdf")
    path = f"{URL}/{id}/os-volume_attachments/{volume}"

    async def put(as_: str = "demo", version: str = NEWEST, **fields: Any) -> int:
        body = {"volumeAttachment": {"volumeId": volume, **fields}}
        return (await cloud.put(path, json=body, as_=as_, version=version)).status_code

    assert await put(delete_on_termination=True, device="/dev/vdf", serverId=id, id=volume) == 202
    assert (await show(cloud, id))["os-extended-volumes:volumes_attached"][0]["delete_on_termination"] is True
    assert await put(device="/dev/vdb") == 400
    assert await put(tag="t") == 400
    assert await put(version="compute 2.84", delete_on_termination=True) == 400
    # A swap is for the volume service alone, and nothing migrates in that way.
    assert await put(volumeId=another) == 403
    assert await put(version="compute 2.84") == 403
    await remove(cloud, id)
    assert (await cloud.get(f"/volume/v3/volumes/{volume}")).status_code == 404


async def test_a_volume_of_two_servers(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud, multiattach=True)
    first, second = await boot(cloud, imageRef=image), await boot(cloud, imageRef=image)
    assert (await attach(cloud, first, volume, version="compute 2.59")).status_code == 400
    assert (await attach(cloud, first, volume)).status_code == 200
    await until(lambda: _has(cloud, volume, "attached"))
    assert (await attach(cloud, second, volume)).status_code == 200
    await until(lambda: _has(cloud, volume, "attached", "attached"))
    assert (await attach(cloud, second, volume)).status_code == 400
    assert (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]["status"] == "in-use"
    await remove(cloud, first)
    assert [one["server_id"] for one in await attachments(cloud, volume)] == [second]
    await remove(cloud, second)
    assert await attachments(cloud, volume) == []


async def test_a_volume_that_cannot_be_plugged_is_given_back(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    id = await boot(cloud, imageRef=image)
    before = await settled(cloud)
    await cloud.db.write(faults.add, faults.Rule(step="connection.ensure", effect="fail", message="no path"))
    assert (await attach(cloud, id, volume)).status_code == 200
    await until(lambda: _has(cloud, volume))
    await cloud.db.write(faults.clear)
    await wait_for_everything(cloud, before)
    assert (await show(cloud, id))["status"] == "ACTIVE"
    (first, *_) = (await cloud.get(f"{URL}/{id}/os-instance-actions", as_="admin")).json()["instanceActions"]
    assert (first["action"], first["message"]) == ("attach_volume", "Error")
    shown = await cloud.get(
        f"{URL}/{id}/os-instance-actions/{first['request_id']}", as_="admin", version=NEWEST
    )
    (event,) = shown.json()["instanceAction"]["events"]
    assert event["result"] == "Error"
    assert "no path" in event["details"]


async def test_detached_before_it_was_attached(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    id = await boot(cloud, imageRef=image)
    before = await settled(cloud)
    await cloud.db.write(faults.add, faults.Rule(step="connection.ensure", effect="hold"))
    assert (await attach(cloud, id, volume)).status_code == 200
    assert (await cloud.delete(f"{URL}/{id}/os-volume_attachments/{volume}")).status_code == 202
    assert (await cloud.delete(f"{URL}/{id}/os-volume_attachments/{volume}")).status_code in (400, 404)
    await cloud.db.write(faults.clear)
    await until(lambda: _has(cloud, volume))
    await wait_for_everything(cloud, before)


async def test_an_interface_is_plugged_and_unplugged(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    id = await boot(cloud, imageRef=image)
    before = await settled(cloud)
    url = f"{URL}/{id}/os-interface"
    made = await cloud.post(
        url, json={"interfaceAttachment": {"net_id": network, "tag": "nic"}}, version=NEWEST
    )
    assert made.status_code == 200, made.text
    interface = made.json()["interfaceAttachment"]
    assert set(interface) == {"net_id", "port_id", "mac_addr", "port_state", "fixed_ips", "tag"}
    assert (interface["net_id"], interface["tag"]) == (network, "nic")
    port = interface["port_id"]
    await until(lambda: _port_is(cloud, port, "ACTIVE"))
    await until(lambda: _has_devices(cloud, id, port))
    listed = (await cloud.get(url)).json()["interfaceAttachments"]
    assert [(one["port_id"], one["port_state"], "tag" in one) for one in listed] == [(port, "ACTIVE", False)]
    shown = (await show(cloud, id))["addresses"]["private"]
    assert [ip["addr"] for ip in shown] == [interface["fixed_ips"][0]["ip_address"]]
    names = (await cloud.get(f"{URL}/{id}/ips")).json()["addresses"]
    assert names == {"private": [{"version": 4, "addr": shown[0]["addr"]}]}
    assert (await cloud.get(f"{URL}/{id}/ips/private")).json() == names
    assert (await cloud.get(f"{URL}/{id}/ips/moon")).status_code == 404
    assert (await cloud.delete(f"{url}/{port}")).status_code == 202
    await until(lambda: _no_interfaces(cloud, id))
    await wait_for_everything(cloud, before)
    assert (await cloud.get(f"{url}/{port}")).status_code == 404
    assert (await cloud.delete(f"{url}/{port}")).status_code == 404
    assert (await cloud.get(f"/network/v2.0/ports/{port}")).status_code == 404
    # Without a body it is the project's only network.
    assert (await cloud.post(url)).json()["interfaceAttachment"]["net_id"] == network


async def _port_is(cloud: TestCloud, port: str, status: str) -> bool:
    return bool((await cloud.get(f"/network/v2.0/ports/{port}")).json()["port"]["status"] == status)


async def _no_interfaces(cloud: TestCloud, id: str) -> bool:
    return (await cloud.get(f"{URL}/{id}/os-interface")).json() == {"interfaceAttachments": []}


async def test_a_users_port_is_given_back(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    made = await cloud.post("/network/v2.0/ports", json={"port": {"network_id": network, "name": "mine"}})
    port = made.json()["port"]
    id = await boot(cloud, imageRef=image)
    url = f"{URL}/{id}/os-interface"
    body = {"interfaceAttachment": {"port_id": port["id"]}}
    assert (await cloud.post(url, json=body)).status_code == 200
    assert (await cloud.post(url, json=body)).status_code == 409
    await until(lambda: _port_is(cloud, port["id"], "ACTIVE"))
    assert (await cloud.delete(f"{url}/{port['id']}")).status_code == 202
    await until(lambda: _no_interfaces(cloud, id))
    shown = (await cloud.get(f"/network/v2.0/ports/{port['id']}")).json()["port"]
    for field in (
        "device_id",
        "device_owner",
        "status",
        "fixed_ips",
        "mac_address",
        "name",
        "security_groups",
    ):
        assert shown[field] == port[field], field


async def test_interfaces_that_are_refused(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": network}])
    taken = (await show(cloud, id))["addresses"]["private"][0]["addr"]
    nowhere = "00000000-0000-0000-0000-000000000000"
    public = await cloud.db.read(lambda tx: tx.value("select id from networks where name = 'public'"))
    for fields, status in (
        ({"net_id": network, "port_id": nowhere}, 400),
        ({"fixed_ips": [{"ip_address": "10.0.0.9"}]}, 400),
        ({"net_id": nowhere}, 404), ({"port_id": nowhere}, 404), ({"net_id": "x"}, 400), ({"unknown": 1}, 400),
        ({"net_id": network, "fixed_ips": [{"ip_address": taken}]}, 409),
        ({"net_id": network, "fixed_ips": [{"ip_address": "1.2.3.4"}]}, 400),
        ({"net_id": network, "fixed_ips": []}, 400),
        ({"net_id": public}, 403),
    ):  # fmt: skip
        answer = await cloud.post(f"{URL}/{id}/os-interface", json={"interfaceAttachment": fields})
        assert answer.status_code == status, (fields, answer.text)
    assert len((await cloud.get(f"{URL}/{id}/os-interface")).json()["interfaceAttachments"]) == 1


async def test_fixed_ips_of_old_versions(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": network}])
    first = (await show(cloud, id))["addresses"]["private"][0]["addr"]
    old = "compute 2.43"
    assert (await act(cloud, id, "addFixedIp", {"networkId": network}, version=old)).status_code == 202
    have = [ip["addr"] for ip in (await show(cloud, id))["addresses"]["private"]]
    assert len(have) == 2
    assert (await act(cloud, id, "removeFixedIp", {"address": first}, version=old)).status_code == 202
    have.remove(first)
    assert [ip["addr"] for ip in (await show(cloud, id))["addresses"]["private"]] == have
    assert (await act(cloud, id, "removeFixedIp", {"address": first}, version=old)).status_code == 400
    assert (await act(cloud, id, "addFixedIp", {"networkId": "x"}, version=old)).status_code == 400
    assert (
        await act(cloud, id, "addFixedIp", {"networkId": network}, version="compute 2.44")
    ).status_code == 404


async def test_a_floating_address_is_shown_at_once(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": network}])
    port = (await cloud.get(f"{URL}/{id}/os-interface")).json()["interfaceAttachments"][0]["port_id"]
    public = await cloud.db.read(lambda tx: tx.value("select id from networks where name = 'public'"))
    made = await cloud.post(
        "/network/v2.0/floatingips", json={"floatingip": {"floating_network_id": public, "port_id": port}}
    )
    assert made.status_code == 201, made.text
    floating = made.json()["floatingip"]
    shown = (await show(cloud, id))["addresses"]["private"]
    assert [(ip["OS-EXT-IPS:type"], ip["addr"]) for ip in shown][1:] == [
        ("floating", floating["floating_ip_address"])
    ]
    await remove(cloud, id)
    left = (await cloud.get(f"/network/v2.0/floatingips/{floating['id']}")).json()["floatingip"]
    assert (left["port_id"], left["fixed_ip_address"]) == (None, None)


async def test_an_administrator_plugs_into_any_network(cloud: TestCloud, image: str) -> None:
    """Upstream's compute asks for the named networks with the caller's own rights."""
    network = await private(cloud)
    public = await cloud.db.read(lambda tx: tx.value("select id from networks where name = 'public'"))
    await cloud.get("/network/v2.0/security-groups", as_="admin")  # the project's default group is made
    before = await settled(cloud)
    id = await boot(
        cloud, imageRef=image, networks=[{"uuid": network}, {"uuid": public}], as_="admin", status="ACTIVE"
    )
    assert set((await show(cloud, id, as_="admin"))["addresses"]) == {"private", "public"}
    body = {"interfaceAttachment": {"net_id": network}}
    assert (await cloud.post(f"{URL}/{id}/os-interface", json=body, as_="admin")).status_code == 200
    await remove(cloud, id, as_="admin")
    await wait_for_everything(cloud, before)
    # A member of another project does not.
    refused = await cloud.post(
        URL, json={"server": {"name": "s", "flavorRef": "42", "imageRef": image, "networks": [{"uuid": network}]}},
        as_="other", version=NEWEST,
    )  # fmt: skip
    assert refused.status_code == 400
    assert f"Network {network} could not be found" in refused.text


async def test_an_action_that_is_not_served_is_named(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    for body, words in (
        ({"fly": None}, "There is no such action: fly."),
        ({"os-start": None, "fly": None}, "The body must name one action; found: os-start, fly."),
        ({}, "The body must name one action; found: none."),
    ):
        answer = await cloud.post(f"{URL}/{id}/action", json=body)
        assert (answer.status_code, answer.json()["badRequest"]["message"]) == (400, words)
