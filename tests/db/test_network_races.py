"""Many requests at once: no address twice, no limit passed, one default group."""

from __future__ import annotations

import anyio
import pytest

from cumulet.app import policy
from cumulet.core import floatingips, networks, ports, routers, securitygroups, subnets
from cumulet.core.network_resources import Item
from cumulet.core.rights import Rights
from cumulet.db.engine import Database, Row, StillHeld, Tx
from cumulet.errors import Conflict, CumuletError, OverQuota
from cumulet.values import Caller

pytestmark = pytest.mark.anyio
RIGHTS = Rights(
    Caller(user_id="u", project_id="p", roles=frozenset({"admin", "manager", "member", "reader"})), policy()
)


def network(tx: Tx, cidr: str = "10.1.0.0/26", **values: object) -> Row:
    made = networks.create(tx, RIGHTS, Item({"name": "", **values}, frozenset(values)))
    body = {"network_id": made["id"], "ip_version": 4, "cidr": cidr, "enable_dhcp": True}
    subnets.create(tx, RIGHTS, Item(body))
    return networks.show(tx, RIGHTS, made["id"])


def port(tx: Tx, network_id: str, **values: object) -> Row:
    return ports.create(tx, RIGHTS, Item({"network_id": network_id, **values}))


async def test_no_address_is_given_twice(db: Database) -> None:
    made = await db.write(network)
    found: list[str] = []
    refused: list[CumuletError] = []

    async def one() -> None:
        try:
            row = await db.write(port, made["id"])
        except CumuletError as error:
            refused.append(error)
        else:
            found.append(row["fixed_ips"][0]["ip_address"])

    async with anyio.create_task_group() as group:
        for _ in range(70):
            group.start_soon(one)
    assert len(found) == len(set(found)) == 61
    assert {error.code for error in refused} == {"IpAddressGenerationFailure"}


async def test_one_named_address_goes_to_one(db: Database) -> None:
    made = await db.write(network)
    results: list[str] = []

    async def one() -> None:
        try:
            await db.write(port, made["id"], fixed_ips=[{"ip_address": "10.1.0.9"}])
            results.append("made")
        except Conflict as error:
            results.append(str(error.code))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(one)
    assert sorted(results) == ["IpAddressInUse"] * 7 + ["made"]


async def test_a_limit_is_not_passed(db: Database) -> None:
    made = await db.write(network)
    await db.write(lambda tx: tx.insert("quotas", area="network", owner="p", resource="port", hard_limit=5))
    refused: list[OverQuota] = []

    async def one() -> None:
        try:
            await db.write(port, made["id"])
        except OverQuota as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(one)
    assert len(refused) == 7
    assert await db.read(lambda tx: tx.value("select count(*) from ports")) == 5


async def test_a_project_gets_one_default_group(db: Database) -> None:
    found: list[str] = []

    async def one() -> None:
        found.append(await db.write(securitygroups.default_of, "p"))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(one)
    assert len(set(found)) == 1
    assert await db.read(lambda tx: tx.value("select count(*) from security_group_rules")) == 4


async def test_a_network_does_not_go_from_under_a_port(db: Database) -> None:
    made = await db.write(network)
    ends: list[str] = []

    async def plug() -> None:
        try:
            await db.write(port, made["id"])
            ends.append("port")
        except (CumuletError, StillHeld):
            ends.append("no port")

    async def remove() -> None:
        try:
            await db.write(networks.delete, RIGHTS, made["id"])
            ends.append("removed")
        except (CumuletError, StillHeld):
            ends.append("kept")

    async with anyio.create_task_group() as group:
        group.start_soon(plug)
        group.start_soon(remove)
    assert sorted(ends) in (["kept", "port"], ["no port", "removed"])
    left = await db.read(
        lambda tx: (tx.value("select count(*) from networks"), tx.value("select count(*) from ports"))
    )
    assert left in ((1, 1), (0, 0))


async def test_routers_do_not_get_clashing_prefixes(db: Database) -> None:
    first, second = await db.write(network), await db.write(network)
    router = await db.write(routers.create, RIGHTS, Item({"name": "", "admin_state_up": True}))
    ends: list[str] = []

    async def plug(subnet: str) -> None:
        try:
            await db.write(routers.add_interface, RIGHTS, router["id"], subnet_id=subnet)
            ends.append("plugged")
        except CumuletError:
            ends.append("refused")

    async with anyio.create_task_group() as group:
        group.start_soon(plug, first["subnets"][0])
        group.start_soon(plug, second["subnets"][0])
    assert sorted(ends) == ["plugged", "refused"]


async def test_one_address_inside_gets_one_floating_ip(db: Database) -> None:
    public = await db.write(network, "172.24.4.0/24", **{"router:external": True})
    private = await db.write(network)
    gateway = {"name": "", "admin_state_up": True, "external_gateway_info": {"network_id": public["id"]}}
    router = await db.write(routers.create, RIGHTS, Item(gateway))
    await db.write(routers.add_interface, RIGHTS, router["id"], subnet_id=private["subnets"][0])
    inside = await db.write(port, private["id"])
    ends: list[str] = []

    async def one() -> None:
        try:
            body = {"floating_network_id": public["id"], "port_id": inside["id"]}
            await db.write(floatingips.create, RIGHTS, Item(body))
            ends.append("made")
        except Conflict as error:
            ends.append(str(error.code))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(one)
    assert sorted(ends) == ["FloatingIPPortAlreadyAssociated"] * 4 + ["made"]
