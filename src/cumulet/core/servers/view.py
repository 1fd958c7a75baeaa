"""Reads all that a server's plan needs to know."""

from __future__ import annotations

from typing import Any

from cumulet.core import images
from cumulet.core.servers import metadata, passwords
from cumulet.db.engine import Row, Tx
from cumulet.reconcile import agents, ledger
from cumulet.reconcile.plan import server as plan
from cumulet.values import AgentView, Claim, Limits


def view(tx: Tx, id: str, limits: Limits) -> plan.Server | None:
    """The server as its plan sees it; None if there is none."""
    row = tx.row("servers", id)
    if row is None:
        return None
    claims = ledger.of_holder(tx, id)
    devices = _devices(tx, id)
    move = _move(tx, row)
    hosts = {row["host"], *((move.source, move.target) if move else ())} - {None}
    known = agents.views(tx, {claim.agent for claim in claims} | hosts)
    image = _image(tx, row["shelved_image_id"])
    return plan.Server(
        id=id,
        desired=row["desired"],
        vm_state=row["vm_state"],
        task_state=row["task_state"],
        state_is_reset=row["state_is_reset"],
        tells_of_its_delete=(row["fault"] or {}).get("message", "").startswith(plan.DELETE_FAILED),
        power_state=row["power_state"],
        now=tx.now,
        patience=limits.patience,
        host=row["host"],
        placed=row["placed"],
        giving_up=row["giving_up"],
        launched=row["launched_at"] is not None,
        attempts=tuple(row["attempts"]),
        max_attempts=limits.build_attempts,
        build_until=row["build_until"],
        claims=claims,
        ports=_ports(tx, id),
        volumes=_volumes(tx, id, devices),
        disks=_disks(tx, row, devices, claims) if row["desired"] != "gone" else (),
        agents=known,
        guest=_guest(row),
        counters=row["counters"],
        devices_pending=row["devices_pending"],
        image=image,
        shelved_at=row["shelved_at"],
        offload_after=limits.offload_after,
        allocated=row["placed"] and _allocated(tx, id),
        leaving=_leaving(tx, id, limits.patience) if row["desired"] == "gone" and not claims else (),
        move=move,
        confirm_after=limits.confirm_after,
        rebuild=_rebuild(row),
        snapshot=_snapshot(tx, row),
        reclaim_at=row["reclaim_at"],
        held=_held(tx)
        if (row["host"] is None and row["desired"] != "gone")
        or (move is not None and move.phase == "preparing")
        else frozenset(),
    )


def _guest(row: Row) -> dict[str, Any]:
    flavor = row["flavor"]
    password = passwords.waiting(row["pending"])
    return {
        **({} if password is None else {"admin_password": password}),
        "name": row["name"],
        "hostname": row["hostname"],
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["ram"],
        "image_properties": row["image_properties"],
    }


def _move(tx: Tx, row: Row) -> plan.Move | None:
    id = row["migration_id"]
    if id is None:
        return None
    found = tx.memo(
        ("migration", id), ("migrations",), lambda: tx.one("select * from migrations where id = :id", id=id)
    )
    if found is None or not found["phase"]:
        return None
    disk = found["new_flavor"].get("disk")
    sizes = {"root": disk * 1024} if found["type"] == "resize" and disk else {}
    return plan.Move(
        id=id, type=found["type"], phase=found["phase"], source=found["source"], target=found["target"],
        error=found["error"], confirm_at=found["confirm_at"], sizes=sizes,
    )  # fmt: skip


def _rebuild(row: Row) -> plan.Rebuild | None:
    asked = row["rebuild"]
    return None if asked is None else plan.Rebuild(frozenset(asked["keep"]), asked.get("image"))


def _snapshot(tx: Tx, row: Row) -> plan.Snapshot | None:
    found = _image(tx, row["snapshot_image_id"])
    return None if found is None else plan.Snapshot(found.id, found.status)


def _allocated(tx: Tx, id: str) -> bool:
    ask = "select 1 from consumers where id = :id"
    return tx.memo(("allocated", id), ("consumers",), lambda: tx.one(ask, id=id)) is not None


def _ports(tx: Tx, id: str) -> tuple[plan.Port, ...]:
    tables = ("interfaces", "ports", "networks", "fixed_ips", "agents")
    return tx.memo(("ports", id), tables, lambda: _read_ports(tx, id))


def _read_ports(tx: Tx, id: str) -> tuple[plan.Port, ...]:
    rows = tx.all(  # a port comes once for each of its addresses
        "select i.id as interface, i.port_id, i.detaching, p.mac_address, p.binding_host, p.status, p.admin_state_up, "
        "p.network_id, n.mtu, "
        "a.id as bound, f.subnet_id, f.address "
        "from interfaces i join ports p on p.id = i.port_id join networks n on n.id = p.network_id "
        "left join agents a on a.kind = 'host' and a.name = p.binding_host and p.binding_host <> '' "
        "left join fixed_ips f on f.port_id = p.id "
        "where i.server_id = :id order by i.position, i.id, f.position",
        id=id,
    )
    addresses: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        found = addresses.setdefault(row["port_id"], [])
        if row["address"] is not None:
            found.append({"subnet": row["subnet_id"], "address": row["address"]})
    ports = {row["port_id"]: row for row in rows}
    return tuple(
        plan.Port(
            id=row["port_id"],
            interface=row["interface"],
            bound=row["bound"] or row["binding_host"],
            up=row["status"] == "ACTIVE" or not row["admin_state_up"],
            detaching=row["detaching"],
            spec={
                "mac": row["mac_address"],
                "network": row["network_id"],
                "mtu": row["mtu"],
                "addresses": addresses[row["port_id"]],
            },
        )
        for row in ports.values()
    )


def _devices(tx: Tx, id: str) -> list[Row]:
    ask = "select * from block_devices where server_id = :id order by position, id"
    return tx.memo(("devices", id), ("block_devices",), lambda: tx.all(ask, id=id))


def _volumes(tx: Tx, id: str, devices: list[Row]) -> tuple[plan.Volume, ...]:
    if not any(device["volume_id"] for device in devices):
        return ()
    tables = ("block_devices", "volumes", "attachments", "agents", "claims")
    return tx.memo(("volumes", id), tables, lambda: _read_volumes(tx, id))


def _read_volumes(tx: Tx, id: str) -> tuple[plan.Volume, ...]:
    rows = tx.all(
        "select b.*, v.agent as backend, v.status as volume_status, v.error as volume_error, v.readonly, coalesce(v.new_size, v.size) as gb, "
        "t.id as attachment, t.status as attachment_status, t.mode, t.host as attachment_host, "
        "g.facts as backend_facts, c.id as claim, c.wanted, c.seen, c.acted, c.revision, c.error as claim_error "
        "from block_devices b join volumes v on v.id = b.volume_id "
        "join attachments t on t.volume_id = b.volume_id and t.server_id = b.server_id and not t.by_client "
        "left join agents g on g.id = v.agent "
        "left join claims c on c.holder = v.id and c.kind = 'volume' "
        "where b.server_id = :id order by b.position, b.id",
        id=id,
    )
    parts = {row["id"]: row["attachment"] for row in rows}
    return tuple(_volume(row, parts.get(row["replaces"])) for row in rows)


def _volume(row: Row, replaces: str | None) -> plan.Volume:
    facts = row["backend_facts"] or {}
    ready = (
        row["claim"] is not None
        and row["wanted"]
        and row["seen"] == "present"
        and row["acted"] >= row["revision"]
        and row["claim_error"] is None
    )
    failed = row["volume_status"] in ("error", "deleting")
    return plan.Volume(
        attachment=row["attachment"],
        volume=row["volume_id"],
        agent=row["backend"],
        claim=row["claim"],
        ready=ready or (row["seen"] == "present" and row["volume_status"] == "extending"),
        status=row["attachment_status"],
        connected=row["attachment_host"] is not None,
        error=(row["volume_error"] or f"its status is {row['volume_status']}") if failed else None,
        detaching=row["detaching"],
        connects=bool(facts.get("connects", True)),
        fences=bool(facts.get("fences", True)),
        delete_on_termination=row["delete_on_termination"],
        root=row["boot_index"] == 0,
        extending=row["volume_status"] == "extending",
        replaces=replaces,
        spec={
            "device": row["device_name"],
            "boot_index": row["boot_index"],
            "bus": row["disk_bus"],
            "readonly": row["mode"] == "ro" or row["readonly"],
            "serial": row["volume_id"],
            # A guest that runs is told of a new size here, and makes its disk larger itself.
            "size_gb": row["gb"],
        },
    )


def _image(tx: Tx, id: str | None) -> plan.Image | None:
    if id is None:
        return None
    found = tx.one("select desired, status from images where id = :id", id=id)
    if found is None or found["desired"] == "gone":
        return plan.Image(id, "gone")
    return plan.Image(id, found["status"])


def _disks(tx: Tx, row: Row, devices: list[Row], claims: tuple[Claim, ...]) -> tuple[plan.Disk, ...]:
    """The disks that live on the host, from the flavor and the block devices; volumes are not among them."""
    found = []
    blank = 0
    made = {claim.part for claim in claims if claim.kind == "disk" and claim.agent == row["host"]}
    if row["rescue"] is not None:
        # The guest boots from its first disk.
        found.append(_root(tx, row, row["rescue"]["image"], "rescue" in made, "rescue"))
    for device in devices:
        if device["destination_type"] != "local":
            continue
        if device["source_type"] == "image":
            # Of a server that was shelved only the image of its own disk will do, whatever became of that.
            image_id = row["shelved_image_id"] or device["image_id"]
            found.append(_root(tx, row, image_id, "root" in made))
        elif device["guest_format"] == "swap":
            found.append(plan.Disk("swap", {"size_mb": device["size"], "format": "swap"}))
        else:
            found.append(
                plan.Disk(
                    f"ephemeral{blank}", {"size_mb": device["size"] * 1024, "format": device["guest_format"]}
                )
            )
            blank += 1
    if row["config_drive"]:
        spec = {} if "config" in made else {"files": metadata.encoded(tx, row)}
        found.append(plan.Disk("config", spec))
    return tuple(found)


_IMAGE = (
    "select i.status, i.disk_format, i.size, i.virtual_size, i.os_hash_value, i.inspected, c.id as claim, "
    "c.seen, c.acted, c.revision "
    "from images i left join claims c on c.holder = i.id and c.kind = 'file' and c.wanted where i.id = :id"
)


def _root(tx: Tx, row: Row, image_id: str, made: bool, part: str = "root") -> plan.Disk:
    if made:
        # What it was made from may be gone by now, and does not matter any more.
        return plan.Disk(part)
    image = tx.memo(("image", image_id), ("images",), lambda: tx.one(_IMAGE, id=image_id))
    if image is None or image["claim"] is None:
        return plan.Disk(part, image_ready=False, error=f"image {image_id} is gone")
    wrong = images.mismatch(image["disk_format"], image["inspected"])
    if wrong is not None:
        return plan.Disk(part, image_ready=False, error=f"image {image_id} cannot be used: {wrong}")
    spec = {
        "size_mb": row["flavor"]["disk"] * 1024 if part == "root" else 0,
        "image": {
            "id": image_id,
            "format": image["disk_format"],
            "size": image["size"],
            "virtual_size": image["virtual_size"],
            "sha512": image["os_hash_value"],
        },
    }
    ready = image["seen"] == "present" and image["acted"] >= image["revision"]
    return plan.Disk(part, spec, image["claim"], ready)


def _leaving(tx: Tx, id: str, patience: float) -> tuple[plan.Leaving, ...]:
    """What is deleted with the server. It is alone once nobody can be expected to remove it soon."""
    rows = tx.all(
        "select h.id, h.kind, c.failing_since, a.id as agent from holders h "
        "left join claims c on c.holder = h.id left join agents a on a.id = c.agent where h.leaving_with = :id",
        id=id,
    )
    known: dict[str, AgentView] = agents.views(tx, {row["agent"] for row in rows if row["agent"]})
    things: dict[str, plan.Leaving] = {}
    for row in rows:
        agent = known.get(row["agent"])
        since = row["failing_since"]
        alone = (agent is not None and agent.away) or (since is not None and tx.now - since >= patience)
        before = things.get(row["id"])
        until = since + patience if since is not None else None
        things[row["id"]] = plan.Leaving(
            row["id"], row["kind"], alone or (before is not None and before.alone), until
        )
    return tuple(things.values())


def _held(tx: Tx) -> frozenset[str]:
    """Steps of the control plane itself that a fault rule holds."""
    return frozenset(tx.values("select step from faults where effect = 'hold' and step = 'schedule'"))
