"""What a guest is told of itself: the files of the config drive, and of the metadata service."""

from __future__ import annotations

import base64

import msgspec

from cumulet.db.engine import Row, Tx


def files(tx: Tx, row: Row, *, secret: bool = False) -> dict[str, bytes]:
    """Paths below the drive's root and their contents, as in the compute guide's "Metadata".

    ``secret``: with the administrator's password, which only the config drive tells.
    """
    document = {
        "uuid": row["id"],
        "name": row["name"],
        "hostname": row["hostname"],
        "launch_index": row["launch_index"],
        "availability_zone": row["zone"] or "nova",
        "project_id": row["project_id"],
        "meta": row["metadata"],
        "keys": [],
        "devices": [],
    }
    if row["key_name"]:
        document["public_keys"] = {row["key_name"]: row["key_data"]}
        document["keys"] = [{"name": row["key_name"], "type": "ssh", "data": row["key_data"]}]
    if secret and row["request"].get("admin_password"):
        document["admin_pass"] = row["request"]["admin_password"]
    injected = row["request"].get("files", [])
    if injected:
        document["files"] = [
            {"content_path": f"/content/{i:04}", "path": path} for i, (path, _) in enumerate(injected)
        ]
    found = {
        "openstack/latest/meta_data.json": msgspec.json.encode(document),
        "openstack/latest/network_data.json": msgspec.json.encode(_network(tx, row["id"])),
    }
    if row["user_data"]:
        found["openstack/latest/user_data"] = base64.b64decode(row["user_data"])
    for i, (_, contents) in enumerate(injected):
        found[f"openstack/content/{i:04}"] = base64.b64decode(contents)
    return found


def encoded(tx: Tx, row: Row) -> dict[str, str]:
    """The files of a config drive for its claim, with the contents in base64: user data can be any bytes."""
    return {path: base64.b64encode(data).decode() for path, data in files(tx, row, secret=True).items()}


def _network(tx: Tx, server_id: str) -> dict[str, object]:
    ports = tx.all(
        "select p.id, p.mac_address, n.mtu, n.id as network from interfaces i join ports p on p.id = i.port_id "
        "join networks n on n.id = p.network_id where i.server_id = :id order by i.position",
        id=server_id,
    )
    links = []
    networks = []
    for i, port in enumerate(ports):
        links.append(
            {
                "id": f"tap{port['id'][:11]}",
                "type": "ovs",
                "ethernet_mac_address": port["mac_address"],
                "mtu": port["mtu"],
            }
        )
        for address in tx.all(
            "select f.address, s.cidr, s.ip_version, s.gateway_ip from fixed_ips f join subnets s on s.id = f.subnet_id "
            "where f.port_id = :id order by f.position",
            id=port["id"],
        ):
            networks.append(
                {
                    "id": f"network{i}",
                    "type": f"ipv{address['ip_version']}",
                    "link": links[-1]["id"],
                    "ip_address": address["address"],
                    "netmask": address["cidr"],
                    "network_id": port["network"],
                    "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": address["gateway_ip"]}]  # noqa: S104
                    if address["gateway_ip"] and address["ip_version"] == 4
                    else [],
                }
            )
    return {"links": links, "networks": networks, "services": []}
