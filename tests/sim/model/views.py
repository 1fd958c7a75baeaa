"""What the plans see of the small cloud."""

from __future__ import annotations

from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import image as image_plan
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan import volume as volume_plan
from cumulet.values import AgentView, Claim
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import ATTACHMENT, BACKEND, IMAGE, MOVE, SERVER, STORE, VOLUME, Control, Image, Row

#: What a fault of the clouds says.
FAILED = "failed"
#: Nobody is waited for longer than this; and when it is over.
PATIENCE, LATER = 5.0, 10.0


def _agents(cloud: Cloud, c: Control) -> dict[str, AgentView]:
    return {name: AgentView(name, "host", name, name in c.away) for name in cloud.names}


def of(c: Control, holder: str) -> tuple[Claim, ...]:
    return tuple(claim for claim in c.claims if claim.holder == holder)


def server(cloud: Cloud, c: Control, row: Row) -> plan.Server:
    claims = of(c, SERVER)
    image = _image(c) if row.shelved else None
    snapshot = _image(c) if row.snapshot else None
    move = row.move
    return plan.Server(
        id=SERVER, desired=row.desired, vm_state=row.vm_state, task_state=row.task_state, power_state=row.power_state,
        state_is_reset=row.state_is_reset, now=c.now, patience=PATIENCE, host=row.host, placed=row.placed, giving_up=row.giving_up,
        launched=row.launched, attempts=({"host": "x", "step": "x", "error": "x"},) * row.attempts,
        max_attempts=cloud.attempts, claims=claims, volumes=_volumes(cloud, c), disks=_disks(cloud, c, row),
        agents=_agents(cloud, c), allocated=SERVER in c.consumers, counters={"starts": row.starts},
        move=None if move is None else plan.Move(
            id=MOVE, type=move.type, phase=move.phase, source=move.source, target=move.target, error=move.error,
        ),
        image=image, shelved_at=row.shelved_at, build_until=row.build_until,
        snapshot=None if snapshot is None else plan.Snapshot(snapshot.id, snapshot.status),
        leaving=_leaving(c) if row.desired == "gone" and not claims else (),
    )  # fmt: skip


def _volumes(cloud: Cloud, c: Control) -> tuple[plan.Volume, ...]:
    if c.volume is None or c.attachment in ("", "passed"):
        return ()
    fences = cloud.fences if cloud.told_fences is None else cloud.told_fences
    return (
        plan.Volume(
            attachment=ATTACHMENT, volume=VOLUME, agent=BACKEND, claim=None, ready=True, status=c.attachment,
            connected=c.attached_to is not None, connects=cloud.connects, fences=fences,
        ),
    )  # fmt: skip


def _disks(cloud: Cloud, c: Control, row: Row) -> tuple[plan.Disk, ...]:
    if not cloud.with_disk:
        return ()
    if any(claim.kind == "disk" and claim.agent == row.host and claim.holder == SERVER for claim in c.claims):
        return (plan.Disk("root"),)
    if not row.shelved:
        return (plan.Disk("root", {"image": "its first"}),)
    file = _file(c)
    if file is None:
        return (plan.Disk("root", image_ready=False, error="its image is gone"),)
    ready = file.seen == "present" and file.acted >= file.revision
    return (plan.Disk("root", {"image": "its own"}, file.id, ready),)


def _file(c: Control) -> Claim | None:
    return next((claim for claim in of(c, IMAGE) if claim.kind == "file" and claim.wanted), None)


def _image(c: Control) -> plan.Image:
    if c.image is None or c.image.desired == "gone":
        return plan.Image(IMAGE, "gone")
    return plan.Image(IMAGE, c.image.status)


def _leaving(c: Control) -> tuple[plan.Leaving, ...]:
    if c.image is None or not c.image.leaving:
        return ()
    claims = of(c, IMAGE)
    failing = any(base.failing(claim, c.now, PATIENCE) for claim in claims)
    return (plan.Leaving(IMAGE, "image", failing or any(claim.agent in c.away for claim in claims)),)


def volume(cloud: Cloud, c: Control) -> volume_plan.Volume:
    assert c.volume is not None
    return volume_plan.Volume(
        id=VOLUME, kind="volume", desired=c.volume, status="available" if c.volume == "available" else "deleting",
        now=c.now, patience=PATIENCE, agent=BACKEND, claims=of(c, VOLUME),
        passed=(volume_plan.Attachment(ATTACHMENT),) if c.attachment == "passed" else (), agents=_agents(cloud, c),
    )  # fmt: skip


def image(cloud: Cloud, c: Control, row: Image) -> image_plan.Image:
    source = None
    if row.source is not None:
        id, host = row.source
        there = any(claim.id == id and claim.wanted for claim in c.claims)
        source = image_plan.Source(id, host, there, {"image": IMAGE})
    return image_plan.Image(
        id=IMAGE, desired=row.desired, status=row.status, now=c.now, patience=PATIENCE, store=STORE, source=source,
        claims=of(c, IMAGE), agents=_agents(cloud, c),
    )  # fmt: skip
