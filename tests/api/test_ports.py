"""Ports: addresses, MAC addresses, groups, who may set what, and what compute does with them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.core import ports
from cumulet.db.engine import Database, Row, Tx
from cumulet.errors import Conflict, NotFound

pytestmark = pytest.mark.anyio
PORTS = f"{BASE}/ports"


def addresses(port: dict[str, Any]) -> list[str]:
    return [fixed["ip_address"] for fixed in port["fixed_ips"]]


async def show(cloud: TestCloud, id: str, as_: str = "demo") -> dict[str, Any]:
    response = await cloud.get(f"{PORTS}/{id}", as_=as_)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["port"]
    return found


async def test_a_port_has_what_neutron_gives_it(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)
        made = await make(cloud, "port", network_id=network_id, name="p")
        assert made["mac_address"].startswith("fa:16:3e:")
        assert made["fixed_ips"] == [{"subnet_id": subnet_id, "ip_address": "10.1.0.2"}]
        assert (made["status"], made["device_id"], made["device_owner"]) == ("DOWN", "", "")
        assert made["binding:vnic_type"] == "normal"
        assert not {"binding:host_id", "binding:vif_type", "binding:profile"} & set(made)
        groups = (await cloud.get(f"{BASE}/security-groups?name=default")).json()["security_groups"]
        assert made["security_groups"] == [groups[0]["id"]]
        assert made["dns_assignment"] == [
            {"ip_address": "10.1.0.2", "hostname": "host-10-1-0-2", "fqdn": "host-10-1-0-2.openstacklocal."}
        ]
        assert await show(cloud, made["id"]) == made
        seen = await show(cloud, made["id"], "admin")
        assert (seen["binding:host_id"], seen["binding:vif_type"], seen["binding:vif_details"]) == (
            "",
            "unbound",
            {},
        )


async def test_addresses_are_given_out_one_after_the_other(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        pools = [{"start": "10.1.0.4", "end": "10.1.0.7"}]
        network_id, _ = await net(cloud, allocation_pools=pools)
        made = [await make(cloud, "port", network_id=network_id) for _ in range(2)]
        named = await make(cloud, "port", network_id=network_id, fixed_ips=[{"ip_address": "10.1.0.6"}])
        assert [*map(addresses, made), addresses(named)] == [["10.1.0.4"], ["10.1.0.5"], ["10.1.0.6"]]
        await cloud.delete(f"{PORTS}/{made[0]['id']}")
        # The freed one rests until the pool was gone through.
        assert addresses(await make(cloud, "port", network_id=network_id)) == ["10.1.0.7"]
        assert addresses(await make(cloud, "port", network_id=network_id)) == ["10.1.0.4"]
        full = await cloud.post(PORTS, json={"port": {"network_id": network_id}})
        assert problem(full) == (409, "IpAddressGenerationFailure")
        outside = await make(cloud, "port", network_id=network_id, fixed_ips=[{"ip_address": "10.1.0.200"}])
        assert addresses(outside) == ["10.1.0.200"]


async def test_an_address_that_a_lost_guest_may_still_have_is_not_given_out(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        pools = [{"start": "10.1.0.4", "end": "10.1.0.6"}]
        network_id, subnet_id = await net(cloud, allocation_pools=pools)

        def hold(tx: Tx) -> None:
            tx.insert(
                "agents", id="a", kind="host", name="h", token_digest="", created_at=0, updated_at=0, number=1
            )  # fmt: skip
            tx.insert("claims", id="c", kind="guest", opened_for="s", agent="a", created_at=0, updated_at=0)
            for address in ("10.1.0.4", "10.1.0.6"):
                tx.insert("held_ips", subnet_id=subnet_id, address=address, claim="c")

        await db.write(hold)
        assert addresses(await make(cloud, "port", network_id=network_id)) == ["10.1.0.5"]
        assert (await cloud.post(PORTS, json={"port": {"network_id": network_id}})).status_code == 409
        body = {"network_id": network_id, "fixed_ips": [{"ip_address": "10.1.0.4"}]}
        assert problem(await cloud.post(PORTS, json={"port": body})) == (409, "IpAddressInUse")
        await db.write(lambda tx: tx.delete("claims", "c"))
        assert addresses(await make(cloud, "port", network_id=network_id)) == ["10.1.0.6"]


async def test_a_run_of_taken_addresses_is_passed_over(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud, "10.0.0.0/16")
        port = await make(cloud, "port", network_id=network_id)

        def fill(tx: Tx) -> None:
            for number in range(3, 1203):
                address = f"10.0.{number >> 8}.{number & 255}"
                tx.insert(
                    "fixed_ips", subnet_id=subnet_id, address=address, port_id=port["id"], position=number,
                    rank=f"0a00{number:04x}",
                )  # fmt: skip

        await db.write(fill)
        assert addresses(await make(cloud, "port", network_id=network_id)) == ["10.0.4.179"]


@pytest.mark.parametrize(
    ("fixed", "status", "type_"),
    [
        ([{"ip_address": "10.1.0.2"}], 409, "IpAddressInUse"),
        ([{"ip_address": "10.2.0.2"}], 400, "InvalidIpForNetwork"),
        ([{"ip_address": "10.1.0.255"}], 400, "InvalidIpForNetwork"),
        ([{"subnet_id": "6f1b7d2e-4a3c-4a52-9f2c-000000000000"}], 404, "SubnetNotFound"),
        ([{"ip_address": "10.1.0.9"}, {"ip_address": "10.1.0.9"}], 400, "HTTPBadRequest"),
        ([{}], 400, "InvalidInput"),
        ("x", 400, "HTTPBadRequest"),
    ],
)
async def test_addresses_that_cannot_be_had(db: Database, fixed: Any, status: int, type_: str) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        await make(cloud, "port", network_id=network_id)
        response = await cloud.post(PORTS, json={"port": {"network_id": network_id, "fixed_ips": fixed}})
        assert problem(response) == (status, type_)
        assert len(await ids(cloud, "ports")) == 1


async def test_one_address_of_each_version_and_all_automatic_ones(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, four = await net(cloud)
        await make(cloud, "subnet", network_id=network_id, ip_version=4, cidr="10.2.0.0/24")
        six = await make(cloud, "subnet", network_id=network_id, ip_version=6, cidr="fd01::/64")
        slaac = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        auto = await make(cloud, "subnet", network_id=network_id, cidr="fd02::/64", **slaac)
        mac = "fa:16:3e:00:00:01"
        made = await make(cloud, "port", network_id=network_id, mac_address="FA-16-3E-00-00-01")
        assert made["mac_address"] == mac
        assert made["fixed_ips"] == [
            {"subnet_id": four, "ip_address": "10.1.0.2"},
            {"subnet_id": six["id"], "ip_address": "fd01::1"},
            {"subnet_id": auto["id"], "ip_address": "fd02::f816:3eff:fe00:1"},
        ]
        late = await make(cloud, "subnet", network_id=network_id, cidr="fd03::/64", **slaac)
        assert (await show(cloud, made["id"]))["fixed_ips"][-1] == {
            "subnet_id": late["id"], "ip_address": "fd03::f816:3eff:fe00:1",
        }  # fmt: skip
        chosen = {"subnet_id": auto["id"], "ip_address": "fd02::9"}
        refused = await cloud.post(PORTS, json={"port": {"network_id": network_id, "fixed_ips": [chosen]}})
        assert problem(refused) == (400, "AllocationOnAutoAddressSubnet")


async def test_addresses_of_an_update_keep_what_they_can(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, first = await net(cloud)
        second = (await make(cloud, "subnet", network_id=network_id, ip_version=4, cidr="10.2.0.0/24"))["id"]
        made = await make(
            cloud, "port", network_id=network_id, fixed_ips=[{"subnet_id": first}, {"subnet_id": second}]
        )
        assert addresses(made) == ["10.1.0.2", "10.2.0.2"]
        path = f"{PORTS}/{made['id']}"

        async def change(*fixed: dict[str, str]) -> list[str]:
            response = await cloud.put(path, json={"port": {"fixed_ips": list(fixed)}})
            assert response.status_code == 200, response.text
            return addresses(response.json()["port"])

        assert await change({"subnet_id": first}) == ["10.1.0.2"]
        assert await change({"subnet_id": first}, {"subnet_id": second}) == ["10.1.0.2", "10.2.0.3"]
        assert await change({"subnet_id": second, "ip_address": "10.2.0.9"}) == ["10.2.0.9"]
        assert await change({"subnet_id": first}, {"subnet_id": first}) == ["10.1.0.3", "10.1.0.4"]
        assert await change() == []
        assert await db.read(lambda tx: tx.value("select count(*) from fixed_ips")) == 0


async def test_mac_addresses(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        mac = "fa:16:3e:aa:bb:cc"
        made = await make(cloud, "port", network_id=network_id, mac_address=mac)
        again = await cloud.post(PORTS, json={"port": {"network_id": network_id, "mac_address": mac}})
        assert problem(again) == (409, "MacAddressInUse")
        bad = await cloud.post(PORTS, json={"port": {"network_id": network_id, "mac_address": "x"}})
        assert bad.status_code == 400
        path = f"{PORTS}/{made['id']}"
        body = {"port": {"mac_address": "fa:16:3e:aa:bb:dd"}}
        assert (await cloud.put(path, json=body)).status_code == 403
        changed = (await cloud.put(path, as_="manager", json=body)).json()["port"]
        assert changed["mac_address"] == "fa:16:3e:aa:bb:dd"
        await db.write(lambda tx: ports.bind(tx, made["id"], "h1"))
        bound = await cloud.put(path, as_="admin", json={"port": {"mac_address": mac}})
        assert problem(bound) == (409, "PortBound")


async def test_a_shared_network_is_used_but_not_owned(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud, as_="admin")
        assert (await cloud.post(PORTS, json={"port": {"network_id": network_id}})).status_code == 404
        await cloud.put(f"{BASE}/networks/{network_id}", as_="admin", json={"network": {"shared": True}})
        made = await make(cloud, "port", network_id=network_id)
        for more in (
            {"mac_address": "fa:16:3e:00:00:01"},
            {"fixed_ips": [{"subnet_id": subnet_id, "ip_address": "10.1.0.77"}]},
            {"allowed_address_pairs": [{"ip_address": "10.1.0.77"}]},
            {"port_security_enabled": False},
            {"device_owner": "network:dhcp"},
            {"binding:host_id": "h1"},
        ):
            refused = await cloud.post(PORTS, json={"port": {"network_id": network_id, **more}})
            assert problem(refused) == (403, "PolicyNotAuthorized"), more
        await make(cloud, "port", network_id=network_id, fixed_ips=[{"subnet_id": subnet_id}])
        assert (await cloud.get(f"{PORTS}/{made['id']}", as_="other")).status_code == 404
        assert made["id"] in await ids(cloud, "ports", "admin")
        # The network's owner sees and may delete what is on it.
        mine, _ = await net(cloud)
        foreign = await make(cloud, "port", "admin", network_id=mine, project_id=cloud.project("other"))
        assert foreign["project_id"] == cloud.project("other")
        assert foreign["id"] in await ids(cloud, "ports")
        assert (await cloud.delete(f"{PORTS}/{foreign['id']}")).status_code == 204


async def test_an_external_network_takes_no_ports_of_its_users(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        external = await make(cloud, "network", "admin", **{"router:external": True})
        assert (await cloud.post(PORTS, json={"port": {"network_id": external["id"]}})).status_code == 403


async def test_lists_are_filtered_by_address(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)
        a = await make(
            cloud, "port", network_id=network_id, fixed_ips=[{"ip_address": "10.1.0.10"}], name="a"
        )
        b = await make(
            cloud, "port", network_id=network_id, fixed_ips=[{"ip_address": "10.1.0.105"}], name="b"
        )
        await net(cloud)
        both = sorted([a["id"], b["id"]])
        assert await ids(cloud, "ports?fixed_ips=ip_address%3D10.1.0.10") == [a["id"]]
        assert await ids(cloud, "ports?fixed_ips=ip_address_substr%3D0.10") == both
        assert await ids(cloud, "ports?fixed_ips=ip_address_substr%3D%25") == []
        assert await ids(cloud, f"ports?fixed_ips=subnet_id%3D{subnet_id}") == both
        query = f"fixed_ips=subnet_id%3D{subnet_id}&fixed_ips=ip_address%3D10.1.0.105"
        assert await ids(cloud, f"ports?{query}") == [b["id"]]
        assert await ids(cloud, f"ports?network_id={network_id}&mac_address={b['mac_address'].upper()}") == [
            b["id"]
        ]
        assert await ids(cloud, f"ports?security_groups={a['security_groups'][0]}") == both
        assert await ids(cloud, "ports?name=a&name=b&sort_key=name&sort_dir=desc") == [b["id"], a["id"]]
        assert await ids(cloud, "ports?device_id=") == both
        assert (await cloud.get(f"{PORTS}?fixed_ips=x")).status_code == 400
        fields = (await cloud.get(f"{PORTS}?fields=id&fields=mac_address&name=a")).json()["ports"]
        assert fields == [{"id": a["id"], "mac_address": a["mac_address"]}]


async def test_options_pairs_and_port_security(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        options = [{"opt_name": "bootfile-name", "opt_value": "pxelinux.0"}]
        pairs = [
            {"ip_address": "10.1.0.99"},
            {"ip_address": "10.9.0.0/24", "mac_address": "fa:16:3e:00:00:09"},
        ]
        made = await make(
            cloud, "port", network_id=network_id, extra_dhcp_opts=options, allowed_address_pairs=pairs
        )
        assert made["extra_dhcp_opts"] == [{**options[0], "ip_version": 4}]
        assert made["allowed_address_pairs"] == [{**pairs[0], "mac_address": made["mac_address"]}, pairs[1]]
        path = f"{PORTS}/{made['id']}"
        more = [
            {"opt_name": "bootfile-name", "opt_value": None},
            {"opt_name": "tftp-server", "opt_value": "1.2.3.4"},
        ]
        changed = (await cloud.put(path, json={"port": {"extra_dhcp_opts": more}})).json()["port"]
        assert [option["opt_name"] for option in changed["extra_dhcp_opts"]] == ["tftp-server"]
        off = {"port_security_enabled": False}
        assert problem(await cloud.put(path, json={"port": off})) == (
            409,
            "AddressPairAndPortSecurityRequired",
        )
        off["allowed_address_pairs"] = None  # type: ignore[assignment]
        assert problem(await cloud.put(path, json={"port": off})) == (409, "PortSecurityPortHasSecurityGroup")
        off["security_groups"] = None  # type: ignore[assignment]
        changed = (await cloud.put(path, json={"port": off})).json()["port"]
        assert (changed["security_groups"], changed["port_security_enabled"]) == ([], False)
        group = (await cloud.get(f"{BASE}/security-groups")).json()["security_groups"][0]["id"]
        refused = await cloud.put(path, json={"port": {"security_groups": [group]}})
        assert problem(refused) == (400, "PortSecurityAndIPRequiredForSecurityGroups")
        for bad in (
            [{"mac_address": "x", "ip_address": "10.1.0.1"}],
            [{}],
            [pairs[0], pairs[0]],
            "x",
            [pairs[0]] * 11,
        ):
            body = {"network_id": network_id, "allowed_address_pairs": bad}
            assert (await cloud.post(PORTS, json={"port": body})).status_code == 400, bad


async def test_groups_of_others_are_not_there(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        foreign = await make(cloud, "security_group", "other", path="security-groups", name="g")
        body = {"network_id": network_id, "security_groups": [foreign["id"]]}
        assert problem(await cloud.post(PORTS, json={"port": body})) == (404, "SecurityGroupNotFound")
        assert (await make(cloud, "port", network_id=network_id, security_groups=[]))["security_groups"] == []


async def test_bulk_is_all_or_nothing(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        good = {
            "ports": [
                {"network_id": network_id, "name": "a"},
                {"network_id": network_id, "admin_state_up": False},
            ]
        }
        made = (await cloud.post(PORTS, json=good)).json()["ports"]
        assert [(port["name"], port["admin_state_up"]) for port in made] == [("a", True), ("", False)]
        bad = {"ports": [{"network_id": network_id}, {"network_id": "6f1b7d2e-4a3c-4a52-9f2c-000000000000"}]}
        assert problem(await cloud.post(PORTS, json=bad)) == (404, "NetworkNotFound")
        assert len(await ids(cloud, "ports")) == 2


async def test_what_compute_does_with_a_port_that_it_made(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        project = cloud.project("demo")

        def create(tx: Tx) -> Row:
            id = ports.create_for_server(
                tx, project_id=project, network_id=network_id, server_id="s1", zone="nova", security_group_ids=[],
                dns_name="web",
            )  # fmt: skip
            return ports.read(tx, id)

        made = await db.write(create)
        assert (made["device_id"], made["device_owner"]) == ("s1", "compute:nova")
        assert [fixed["ip_address"] for fixed in made["fixed_ips"]] == ["10.1.0.2"]
        assert len(made["security_groups"]) == 1
        await db.write(lambda tx: ports.bind(tx, made["id"], "h1"))
        shown = await show(cloud, made["id"], "admin")
        assert (shown["binding:host_id"], shown["binding:vif_type"], shown["status"]) == ("h1", "ovs", "DOWN")
        with pytest.raises(NotFound):
            await db.write(
                lambda tx: ports.create_for_server(
                    tx, project_id="x", network_id=network_id, server_id="s", zone="n", security_group_ids=[]
                )
            )
        await db.write(lambda tx: ports.delete(tx, made["id"]))
        await db.write(lambda tx: ports.delete(tx, made["id"]))
        assert (await cloud.get(f"{PORTS}/{made['id']}")).status_code == 404


async def test_a_port_of_the_user_is_taken_once_and_given_back_as_it_was(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        before = await make(cloud, "port", network_id=network_id, name="mine", tags=["t"])
        mine = {"server_id": "s1", "zone": "nova", "project_id": cloud.project("demo"), "is_admin": False}
        theirs = {**mine, "project_id": cloud.project("other")}
        with pytest.raises(NotFound):
            await db.write(lambda tx: ports.take(tx, before["id"], **theirs))
        await db.write(lambda tx: ports.take(tx, before["id"], **mine))
        with pytest.raises(Conflict, match="s1"):
            await db.write(lambda tx: ports.take(tx, before["id"], **{**mine, "server_id": "s2"}))

        def use(tx: Tx) -> None:
            ports.bind(tx, before["id"], "h1")
            assert ports.name(tx, before["id"], "s1", "web") == "web"
            tx.update("ports", before["id"], binding_profile={"pci_slot": "0", "mine": 1})

        await db.write(use)
        await db.write(lambda tx: ports.unbind(tx, before["id"]))
        shown = await show(cloud, before["id"], "admin")
        assert (shown["device_id"], shown["binding:host_id"], shown["dns_name"]) == ("s1", "", "web")
        assert shown["binding:profile"] == {"mine": 1}
        await db.write(lambda tx: ports.give_back(tx, before["id"], "web"))
        await db.write(lambda tx: ports.give_back(tx, "gone"))
        after = await show(cloud, before["id"])
        same = set(before) - {"revision_number", "updated_at"}
        assert {name: after[name] for name in same} == {name: before[name] for name in same}


async def test_the_ports_of_many_servers_in_four_statements(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)

        def create(tx: Tx) -> list[str]:
            return [
                ports.create_for_server(
                    tx, project_id=cloud.project("demo"), network_id=network_id, server_id=server, zone="nova",
                    security_group_ids=[],
                )
                for server in ("s1", "s1", "s2")
            ]  # fmt: skip

        made = await db.write(create)

        def read(tx: Tx) -> tuple[dict[str, list[Row]], int]:
            before = tx.statements
            return ports.of_server(tx, ["s1", "s2", "s3"]), tx.statements - before

        found, statements = await db.read(read)
        assert statements <= 4
        assert {server: [port["id"] for port in some] for server, some in found.items()} == {
            "s1": found["s1"] and [port["id"] for port in found["s1"]], "s2": [made[2]], "s3": [],
        }  # fmt: skip
        assert sorted(port["id"] for port in found["s1"]) == sorted(made[:2])
        only = found["s2"][0]
        assert only["fixed_ips"] == [
            {"subnet_id": subnet_id, "ip_address": "10.1.0.4", "version": 4, "floating_ips": []}
        ]
        assert [group["name"] for group in only["security_groups"]] == ["default"]
        assert only["network_name"] == ""
