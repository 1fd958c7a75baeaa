"""Writes what a server's plan decided."""

from __future__ import annotations

from typing import Any

import msgspec

from cumulet.core import history, images, migrations, ports, scheduling, volumes
from cumulet.core.servers import passwords, remove, snapshots, volume_attachments
from cumulet.core.volumes import content
from cumulet.db.engine import Row, Tx
from cumulet.reconcile import holders
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.schedule import Ask, Refused


def apply(tx: Tx, view: plan.Server, change: base.Change) -> None:
    """Write one change. What all kinds of holders have in common, the ledger's part, is written elsewhere."""
    match change:
        case base.Set():
            tx.update("servers", view.id, **change.values, updated_at=tx.now)
        case base.Leave():
            _keep_addresses(tx, view, change.claim)
        case base.Remove():
            remove.record(tx, view.id)
        case plan.Place():
            _place(tx, view)
        case plan.BindPort():
            ports.bind(tx, change.port, view.agents[change.host].name)
            holders.now(tx, change.port)
        case plan.UnbindPort():
            ports.unbind(tx, change.port)
        case plan.ReleasePort():
            _release_port(tx, change)
        case plan.SetAttachment():
            _set_attachment(tx, change)
        case plan.EndAttachment():
            _end_attachment(tx, view, change)
        case plan.PassAttachment():
            _pass_attachment(tx, view, change)
        case plan.FreeAllocation():
            scheduling.free(tx, view.id)
            if view.move is not None:
                scheduling.free(tx, view.move.id)
        case plan.TakeImage():
            images.fill_from_disk(tx, change.image, disk=change.disk, host=change.host)
        case plan.DropImage():
            _drop_image(tx, view, change.image)
        case plan.Fault():
            _fault(tx, view, change)
        case plan.DetachDevice():
            _detach_device(tx, view, change.part)
        case plan.SwapVolume():
            volume_attachments.swapped(tx, view.id, change.old, change.new)
        case plan.Arrived():
            _ended(tx, view)
        case plan.NotArrived():
            _ended(tx, view, change.message, change.action)
        case plan.ChooseTarget():
            _choose_target(tx, view)
        case plan.MoveOn():
            _move_on(tx, view, change)
        case plan.EndMove():
            migrations.end(tx, *migrations.current(tx, view.id), change.status)
        case plan.EndSnapshot():
            snapshots.end(tx, view.id, change.error)
        case plan.WriteVolume():
            _write_volume(tx, view, change)
        case _:
            raise TypeError(f"a server has no {type(change).__name__}")


def _place(tx: Tx, view: plan.Server) -> None:
    row = tx.row("servers", view.id)
    assert row is not None
    found = scheduling.place(tx, view.id, row["project_id"], row["user_id"], _ask(tx, row))
    if isinstance(found, Refused):
        shelved = row["vm_state"] == "shelved_offloaded"
        attempts = [*row["attempts"], {"host": None, "step": "schedule", "error": found.reason}]
        tx.update(
            "servers",
            view.id,
            desired="offloaded" if shelved else "failed",
            attempts=attempts,
            updated_at=tx.now,
        )
        _fault(tx, view, plan.Fault(found.reason))
        return
    tx.update(
        "servers", view.id, host=found.host, placed=True,
        task_state="spawning", updated_at=tx.now,
    )  # fmt: skip


def _choose_target(tx: Tx, view: plan.Server) -> None:
    server, move = migrations.current(tx, view.id)
    server = {**server, **migrations.of_flavor(move["new_flavor"])}
    ask = msgspec.structs.replace(
        _ask(tx, server), host=move["requested_host"], failed_on=frozenset({move["source_name"]})
    )
    host = migrations.choose_target(tx, server, move, ask)
    tx.wakes.add(view.id)
    if host is None:
        reason = str(tx.value("select error from migrations where id = :id", id=move["id"]))
        values: dict[str, Any] = {"migration_id": None, "task_state": None}
        if move["type"] == "evacuation":
            # That its host is down is not seen of it: it shows that it cannot be helped until somebody tries again.
            values |= {"vm_state": "error", "state_is_reset": True, "pending": None}
        tx.update("servers", view.id, **values, updated_at=tx.now)
        _fault(tx, view, plan.Fault(reason))
    elif move["type"] == "evacuation":
        _, move = migrations.current(tx, view.id)  # it has a target now
        migrations.move_on(tx, server, move, "finishing")
        counters = {**server["counters"], "starts": server["counters"].get("starts", 0) + 1}
        desired = (server["pending"] or {}).get("desired", "active")
        tx.update("servers", view.id, desired=desired, counters=counters, pending=None, rescue=None)
    else:
        live = move["type"] == "live-migration"
        status, task = ("running", "migrating") if live else ("migrating", "resize_migrating")
        tx.update("migrations", move["id"], phase="moving", status=status)
        tx.update("servers", view.id, task_state=task, updated_at=tx.now)


def _move_on(tx: Tx, view: plan.Server, change: plan.MoveOn) -> None:
    server, move = migrations.current(tx, view.id)
    finished = change.phase == "finished"
    confirm_at = tx.now + view.confirm_after if finished and view.confirm_after > 0 else None
    migrations.move_on(tx, server, move, change.phase, change.error, confirm_at)
    if change.phase == "finishing" and move["type"] != "live-migration":
        tx.update("servers", view.id, task_state="resize_finish")
    if finished:
        tx.update("migrations", move["id"], status="finished")
        tx.update("servers", view.id, vm_state="resized", task_state=None, launched_at=tx.now)
        history.finish(tx, view.id)


def _ask(tx: Tx, row: Row) -> Ask:
    """What the scheduler is asked for a server."""
    request: dict[str, Any] = row["request"]
    hints = request.get("hints", {})
    policy, members, most = _group(tx, row)
    return Ask(
        resources=resources(tx, row),
        zone=request.get("zone"),
        host=request.get("host"),
        failed_on=frozenset(attempt["host"] for attempt in row["attempts"] if attempt["host"]),
        policy=policy,
        members=members,
        max_per_host=most,
        required_traits=_traits(row, "required"),
        forbidden_traits=_traits(row, "forbidden"),
        different_host=_hosts_of(tx, row, hints.get("different_host")),
        same_host=_hosts_of(tx, row, hints["same_host"]) if hints.get("same_host") else None,
    )


def resources(tx: Tx, row: Row) -> dict[str, int]:
    """What a server uses at placement: its flavor, without a root disk if that is a volume."""
    flavor = row["flavor"]
    local_root = tx.one(
        "select 1 from block_devices where server_id = :id and destination_type = 'local' and source_type = 'image'",
        id=row["id"],
    )
    disk = flavor["ephemeral"] + -(-flavor["swap"] // 1024) + (flavor["disk"] if local_root else 0)
    return {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["ram"], "DISK_GB": disk}


def _traits(row: Row, value: str) -> frozenset[str]:
    specs = row["flavor"].get("extra_specs", {})
    return frozenset(key[6:] for key, found in specs.items() if key.startswith("trait:") and found == value)


def _group(tx: Tx, row: Row) -> tuple[str, dict[str, int], int]:
    if row["group_id"] is None:
        return "", {}, 1
    group = tx.one("select policy, rules from server_groups where id = :id", id=row["group_id"])
    if group is None:
        return "", {}, 1
    rows = tx.all(
        "select a.name, count(*) as n from servers s join agents a on a.id = s.host "
        "where s.group_id = :group and s.id <> :id group by a.name",
        group=row["group_id"], id=row["id"],
    )  # fmt: skip
    return (
        group["policy"],
        {r["name"]: r["n"] for r in rows},
        int(group["rules"].get("max_server_per_host", 1)),
    )


def _hosts_of(tx: Tx, row: Row, servers: Any) -> frozenset[str]:
    """Where those servers are. Another project's are nowhere, as what does not exist."""
    ids = [servers] if isinstance(servers, str) else servers or []
    if not ids:
        return frozenset()
    return frozenset(
        tx.values(
            "select a.name from servers s join agents a on a.id = s.host where s.id in :ids "
            "and s.project_id = :project",
            ids=tuple(map(str, ids)),
            project=row["project_id"],
        )
    )


def _release_port(tx: Tx, change: plan.ReleasePort) -> None:
    row = tx.one("select made_by_us, named from interfaces where id = :id", id=change.interface)
    if row is None:
        return  # it went with its port
    tx.delete("interfaces", change.interface)
    if row["made_by_us"]:
        ports.delete(tx, change.port)
    else:
        ports.give_back(tx, change.port, row["named"])


def _keep_addresses(tx: Tx, view: plan.Server, claim_id: str) -> None:
    """A guest that nobody reaches may still use its addresses: nobody else gets them until its tap is gone.

    With a host that is destroyed it is gone already.
    """
    claim = next(claim for claim in view.claims if claim.id == claim_id)
    if claim.kind != "tap":
        return
    for fixed in claim.spec.get("addresses", ()):
        tx.run(
            "insert into held_ips (subnet_id, address, claim) select s.id, :address, c.id from subnets s, claims c "
            "where s.id = :subnet and c.id = :claim on conflict do nothing",
            subnet=fixed["subnet"], address=fixed["address"], claim=claim_id,
        )  # fmt: skip


def _set_attachment(tx: Tx, change: plan.SetAttachment) -> None:
    host = tx.value("select name from agents where id = :id", id=change.host) if change.host else None
    volumes.set_attachment(tx, change.attachment, status=change.status, host=host, info=dict(change.info))


def _write_volume(tx: Tx, view: plan.Server, change: plan.WriteVolume) -> None:
    tx.lock("holders", change.volume)
    volume = tx.one("select * from volumes where id = :id", id=change.volume)
    image = images.known(tx, change.image)
    if volume is None or image is None:
        tx.update("servers", view.id, vm_state="error", task_state=None, updated_at=tx.now)
        _fault(tx, view, plan.Fault(f"The volume cannot be written anew: image {change.image} is gone"))
        return
    content.write_anew(tx, volume, image)
    holders.now(tx, change.volume)


def _device_of(tx: Tx, view: plan.Server, volume: str) -> None:
    tx.run(
        "delete from block_devices where server_id = :server and volume_id = :volume",
        server=view.id,
        volume=volume,
    )


def _end_attachment(tx: Tx, view: plan.Server, change: plan.EndAttachment) -> None:
    _device_of(tx, view, change.volume)
    volumes.end_attachment(tx, change.attachment)
    if change.delete and volumes.delete_with_server(tx, change.volume):
        holders.leave_with(tx, change.volume, view.id)


def _detach_device(tx: Tx, view: plan.Server, part: str) -> None:
    tx.run(
        "update interfaces set detaching = true where server_id = :server and port_id = :part",
        server=view.id, part=part,
    )  # fmt: skip
    tx.run(
        "update block_devices set detaching = true where server_id = :server and volume_id in "
        "(select volume_id from attachments where id = :part)",
        server=view.id, part=part,
    )  # fmt: skip
    volume_attachments.keep_replaced(tx, view.id, part)


def _pass_attachment(tx: Tx, view: plan.Server, change: plan.PassAttachment) -> None:
    _device_of(tx, view, change.volume)
    volumes.pass_attachment(tx, change.attachment, delete_volume=change.delete)


def _drop_image(tx: Tx, view: plan.Server, image: str) -> None:
    tx.update("servers", view.id, shelved_image_id=None)
    if images.delete_inner(tx, image) and view.desired == "gone":
        holders.leave_with(tx, image, view.id)


def _fault(tx: Tx, view: plan.Server, change: plan.Fault) -> None:
    fault = {"code": change.code, "message": change.message, "created": tx.now}
    tx.update("servers", view.id, fault=fault, updated_at=tx.now)
    if view.desired != "gone":
        _ended(tx, view, change.message)


def _ended(tx: Tx, view: plan.Server, error: str | None = None, action: str | None = None) -> None:
    """What the user asked for last has come true, or will not. ``action``: only these end."""
    history.finish(tx, view.id, error=error, action=action)
    if "admin_password" in view.guest and action is None:
        passwords.forget(tx, view.id)
