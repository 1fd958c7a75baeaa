"""The first networks of a cloud: ready for a first server, with a way out and a way in."""

from __future__ import annotations

from typing import Any

from cumulet.core import networks, routers, securitygroups, subnetpools, subnets
from cumulet.core.bootstrap import fixed
from cumulet.core.network_resources import Item, stamps
from cumulet.db.engine import Row, Tx

_DONE = "network seeded"


def seed(tx: Tx) -> None:
    """``seed_network`` for the projects of ``bootstrap.seed_identity``."""
    seed_network(tx, fixed("project", "admin"), fixed("project", "demo"))


def seed_network(tx: Tx, admin_project_id: str, demo_project_id: str) -> None:
    """Make the networks public and private, a router between them, and a default pool; open SSH and ping to demo.

    It is done once in the life of a cloud: what was deleted stays deleted.
    """
    if tx.one("select 1 from settings where id = :id", id=_DONE) is not None:
        return
    tx.insert("settings", id=_DONE, value={"at": tx.now})
    public = _network(
        tx, admin_project_id, "public",
        {
            "router:external": True, "is_default": True, "provider:network_type": "flat",
            "provider:physical_network": "public",
        },
        cidr="172.24.4.0/24", enable_dhcp=False,
    )  # fmt: skip
    private = _network(
        tx, demo_project_id, "private", {}, cidr="10.0.0.0/24", dns_nameservers=["1.1.1.1", "8.8.8.8"]
    )  # fmt: skip
    router = routers.insert(tx, demo_project_id, Item({"name": "router", "admin_state_up": True}))
    routers.set_gateway(tx, router, public)
    routers.plug(tx, router, demo_project_id, subnets.of_network(tx, private["id"])[0])
    # Servers whose network is to be made for them get a prefix from here.
    subnetpools.insert(
        tx, admin_project_id,
        Item(
            {
                "name": "default", "prefixes": ["10.128.0.0/10"], "default_prefixlen": 26, "is_default": True,
                "shared": True,
            }
        ),
    )  # fmt: skip
    group = securitygroups.default_of(tx, demo_project_id)
    for rule in (
        {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22},
        {"protocol": "icmp"},
    ):
        tx.insert(
            "security_group_rules", id=tx.uuid(), project_id=demo_project_id, security_group_id=group,
            direction="ingress", ethertype="IPv4", **rule, **stamps(tx),
        )  # fmt: skip


def _network(tx: Tx, project_id: str, name: str, values: dict[str, Any], **subnet: Any) -> Row:
    id = networks.insert(tx, project_id, Item({"name": name, "admin_state_up": True, **values}))
    row = tx.one("select * from networks where id = :id", id=id)
    assert row is not None
    subnets.insert(tx, row, project_id, Item({"name": f"{name}-subnet", "ip_version": 4, **subnet}))
    return row
