"""The control plane: the real rules of the plans and decisions of the ledger, with their writes in plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from cumulet.reconcile import ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan import volume as volume_plan
from cumulet.values import CLAIM_KINDS, Claim, Report
from tests.sim.model import laws, users, views
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import (
    IMAGE,
    MOVE,
    SERVER,
    VOLUME,
    Broken,
    Control,
    Row,
    Sight,
    added,
    key,
    without,
)

#: The volume's own bytes do not matter here: only rules about exports and removal.
VOLUME_RULES = (
    volume_plan.end_attachments, volume_plan.want_it_no_more, volume_plan.wait_until_it_is_removed,
    volume_plan.remove_the_record, volume_plan.wait_for_exports,
)  # fmt: skip


def settle(cloud: Cloud, c: Control) -> Control:
    """Reconcile until nothing changes, as the real transaction does; then move revisions."""
    if cloud.torn:
        return c
    digest = blake2b(key(c), digest_size=16).digest()
    found = cloud.settled.get(digest)
    if found is None:
        found = cloud.settled[digest] = _settle(cloud, c)
    return found


def _settle(cloud: Cloud, c: Control) -> Control:
    moved: set[str] = set()
    for _ in range(60):
        before = c
        for holder in (SERVER, VOLUME, IMAGE):
            _, step = decide(cloud, c, holder)
            if not isinstance(step, base.Wait | base.Rest):
                c, more = write(cloud, c, holder, step)
                moved |= more
        if c is before:
            return flush(cloud, c, moved)
    raise Broken("the plan does not come to rest")


def decide(cloud: Cloud, c: Control, holder: str) -> tuple[str, base.Step]:
    """What the holder's plan says; a holder that is not there rests."""
    if holder == SERVER and c.server is not None:
        return base.decide(views.server(cloud, c, c.server), cloud.rules)
    if holder == VOLUME and c.volume is not None:
        return base.decide(views.volume(cloud, c), VOLUME_RULES)
    if holder == IMAGE and c.image is not None:
        return base.decide(views.image(cloud, c, c.image), cloud.image_rules)
    return "", base.Rest()


def flush(cloud: Cloud, c: Control, moved: Iterable[str]) -> Control:
    """Give what moved its agent's next revision. While the transaction is open it has that one already."""
    counters = list(c.counters)
    for name in {claim.agent for claim in c.claims if claim.id in moved}:
        counters[cloud.index(name)] += 1
    return _mark(cloud, replace(c, counters=tuple(counters)), moved, 0)


def _mark(cloud: Cloud, c: Control, moved: Iterable[str], ahead: int = 1) -> Control:
    claims = tuple(
        replace(claim, revision=c.counters[cloud.index(claim.agent)] + ahead) if claim.id in moved else claim
        for claim in c.claims
    )
    return replace(c, claims=claims)


# --- what the plans write ---


def write(cloud: Cloud, c: Control, holder: str, step: Iterable[base.Change]) -> tuple[Control, set[str]]:
    """All changes of one step, and the ids of the claims that moved."""
    moved: set[str] = set()
    opened: dict[base.Named, str] = {}
    for change in step:
        if cloud.torn and not _still_there(c, change):
            continue
        c = _ledger(cloud, c, holder, change, moved, opened)
    return _mark(cloud, c, moved), moved


def _still_there(c: Control, change: base.Change) -> bool:
    """False for an update of a row that somebody else removed, which changes nothing."""
    ids = {claim.id for claim in c.claims}
    if isinstance(change, base.Respec | base.DropNeed | base.Leave | base.HandOver):
        return change.claim in ids
    if isinstance(change, base.Unwant):
        return ids.issuperset(change.claims)
    return c.server is not None or isinstance(change, base.Open)


def _ledger(
    cloud: Cloud, c: Control, holder: str, change: base.Change, moved: set[str], opened: dict[base.Named, str]
) -> Control:
    """Write a change of the ledger; other ones go on to who knows them."""
    claims = {claim.id: claim for claim in c.claims}
    match change:
        case base.Open():
            if c.server is None and holder == SERVER and cloud.safeguards.foreign_key:
                return c  # refused: there is no such holder
            laws.check_opened(c, change)
            id = opened[change.kind, change.part] = f"{change.kind}{c.drawn}"
            claims[id] = Claim(
                id=id, kind=change.kind, holder=holder, agent=change.agent, wanted=True, revision=0, spec=change.spec,
                needs=_resolve(c, holder, change.needs, opened), part=change.part,
            )  # fmt: skip
            moved.add(id)
            c = replace(c, drawn=c.drawn + 1)
        case base.Respec():
            claim = claims[change.claim]
            more = [need for need in _resolve(c, holder, change.needs, opened) if need not in claim.needs]
            claims[claim.id] = replace(claim, spec=change.spec, needs=tuple(sorted((*claim.needs, *more))))
            moved.add(claim.id)
        case base.Unwant():
            c = _unwant(c, claims, change.claims, moved)
        case base.DropNeed():
            claim = claims[change.claim]
            claims[claim.id] = replace(claim, needs=without(claim.needs, change.needs))
            need = claims.get(change.needs)
            if need is not None and not need.wanted:
                moved.add(need.id)
            if need is not None and need.agent == claim.agent:
                moved.add(claim.id)
        case base.Leave():
            c = _unwant(c, claims, (change.claim,), moved)
            claims[change.claim] = replace(claims[change.claim], holder=None, left=True)
            c = replace(c, left=added(c.left, [change.claim]))
        case base.HandOver():
            if c.volume is None and cloud.safeguards.foreign_key:
                return c  # refused: there is no such holder
            claims[change.claim] = replace(claims[change.claim], holder=change.holder)
        case base.Remove():
            if cloud.safeguards.foreign_key and any(claim.holder == holder for claim in claims.values()):
                return c  # refused, and tried again later
            # Without the foreign key the claims go with their holder.
            claims = {id: claim for id, claim in claims.items() if claim.holder != holder}
            c = _removed(c, holder)
        case base.Set():
            return _set(c, holder, dict(change.values))
        case _:
            return _server(cloud, c, change)
    order = sorted(claims.values(), key=lambda claim: (CLAIM_KINDS[claim.kind], claim.id))
    return replace(c, claims=tuple(order))


def _resolve(
    c: Control, holder: str, needs: Sequence[str | base.Named], opened: dict[base.Named, str]
) -> tuple[str, ...]:
    known = {claim.id for claim in c.claims}
    named = {(claim.kind, claim.part): claim.id for claim in views.of(c, holder) if claim.wanted} | opened
    ids = (need if isinstance(need, str) else named.get(need) for need in needs)
    return tuple(sorted(id for id in ids if id is not None and id in known))


def _unwant(c: Control, claims: dict[str, Claim], ids: Iterable[str], moved: set[str]) -> Control:
    for id in ids:
        if claims[id].wanted:
            claims[id] = replace(claims[id], wanted=False, error=None, failing_since=None)
            moved.add(id)
    return replace(c, given_up=added(c.given_up, ids))


def _removed(c: Control, holder: str) -> Control:
    if holder == VOLUME:
        return replace(c, volume=None)
    if holder == IMAGE:
        return replace(c, image=None)
    # Its moves are closed with it.
    return replace(c, server=None, consumers=without(c.consumers, MOVE))


def _set(c: Control, holder: str, values: dict[str, Any]) -> Control:
    if holder == IMAGE:
        assert c.image is not None
        if values.get("desired") == "gone":
            laws.check_given_up(c)
        kept = {name: value for name, value in values.items() if name in ("desired", "status")}
        if "origin" in values:
            kept["source"] = None
        return replace(c, image=replace(c.image, **kept))
    assert c.server is not None
    if "launched_at" in values:
        del values["launched_at"]
        values["launched"] = True
    if "attempts" in values:
        values["attempts"] = len(values["attempts"])
    values.pop("devices_pending", None)  # nothing is attached or detached here
    return replace(c, server=replace(c.server, **values))


def _server(cloud: Cloud, c: Control, change: base.Change) -> Control:
    """Write a change that only a server has: what ``core.servers.apply`` does."""
    row = c.server
    assert row is not None or isinstance(change, volume_plan.EndPassed)
    match change:
        case plan.Place():
            return _place(cloud, c, row)
        case plan.SetAttachment():
            return replace(c, attachment=change.status, attached_to=change.host or None)
        case plan.EndAttachment() | volume_plan.EndPassed():
            return replace(c, attachment="", attached_to=None)
        case plan.PassAttachment():
            return replace(c, attachment="passed")
        case plan.FreeAllocation():
            return replace(c, consumers=())
        case plan.TakeImage():
            assert c.image is not None
            return replace(c, image=replace(c.image, status="saving", source=(change.disk, change.host)))
        case plan.DropImage():
            return _drop_image(c, row)
        case plan.EndSnapshot():
            c = replace(c, server=replace(row, snapshot=False, task_state=None))
            return users.unwant_image(c) if change.error is not None else c
        case plan.ChooseTarget():
            return _choose_target(cloud, c, row)
        case plan.MoveOn():
            return _move_on(c, row, change)
        case plan.EndMove():
            back = change.status in ("error", "reverted") and MOVE in c.consumers
            consumers = (SERVER,) if back else without(c.consumers, MOVE)
            return replace(c, consumers=consumers, server=replace(row, move=None, task_state=None))
        case plan.Fault() | plan.Arrived() | plan.NotArrived():
            return c
        case _:
            raise NotImplementedError(type(change).__name__)


def _place(cloud: Cloud, c: Control, row: Row) -> Control:
    free = [host for i, host in enumerate(cloud.hosts) if host not in c.away and i >= row.attempts]
    if not free:
        shelved = row.vm_state == "shelved_offloaded"
        refused = replace(row, desired="offloaded" if shelved else "failed", attempts=row.attempts + 1)
        return replace(c, server=refused)
    placed = replace(row, host=free[0], placed=True, task_state="spawning")
    return replace(c, server=placed, consumers=added(c.consumers, [SERVER]))


def _drop_image(c: Control, row: Row) -> Control:
    c = replace(c, server=replace(row, shelved=False))
    if c.image is None or c.image.desired == "gone":
        return c
    return replace(c, image=replace(c.image, desired="gone", leaving=row.desired == "gone"))


def _choose_target(cloud: Cloud, c: Control, row: Row) -> Control:
    assert row.move is not None
    move = row.move
    free = [host for host in cloud.hosts if host not in c.away and host != move.source]
    evacuates = move.type == "evacuation"
    if not free:
        row = replace(row, move=None, task_state=None)
        return replace(c, server=replace(row, vm_state="error", state_is_reset=True) if evacuates else row)
    c = replace(c, consumers=(MOVE, SERVER) if SERVER in c.consumers else (SERVER,))
    move = replace(move, target=free[0])
    if evacuates:
        desired = "stopped" if row.desired == "stopped" else "active"
        row = users.enter(replace(row, move=move, desired=desired, starts=row.starts + 1), "finishing")
        return replace(c, server=row)
    task = "migrating" if move.type == "live-migration" else "resize_migrating"
    return replace(c, server=replace(row, move=replace(move, phase="moving"), task_state=task))


def _move_on(c: Control, row: Row, change: plan.MoveOn) -> Control:
    assert row.move is not None
    row = users.enter(row, change.phase, change.error)
    assert row.move is not None
    if change.phase == "finishing" and row.move.type != "live-migration":
        row = replace(row, task_state="resize_finish")
    if change.phase == "finished":
        row = replace(row, vm_state="resized", task_state=None)
    return replace(c, server=row)


# --- what the ledger hears ---


def hear(cloud: Cloud, c: Control, agent: str, sights: Iterable[Sight]) -> Control:
    """Take down a report, and settle what it changes."""
    moved: set[str] = set()
    claims = {claim.id: claim for claim in c.claims}
    for sight in sights:
        before = claims.get(sight.id)
        if before is None or before.agent != agent:
            continue
        error = views.FAILED if sight.failed else None
        after = ledger.heard(before, Report(sight.id, sight.revision, sight.seen, sight.facts, error), c.now)
        claims[sight.id] = after
        if after.ready and not before.ready:
            moved |= {
                other.id
                for other in claims.values()
                if sight.id in other.needs and ledger.awaits(other, after)
            }
    _close(cloud, claims, moved)
    order = sorted(claims.values(), key=lambda claim: (CLAIM_KINDS[claim.kind], claim.id))
    return settle(cloud, flush(cloud, replace(c, claims=tuple(order)), moved))


def _close(cloud: Cloud, claims: dict[str, Claim], moved: set[str]) -> None:
    again = True
    while again:
        again = False
        for claim in sorted(claims.values(), key=lambda claim: -claim.rank):
            needed_by = [other for other in claims.values() if claim.id in other.needs]
            if not cloud.safeguards.needs:
                needed_by = []
            asked = claim if cloud.safeguards.revision else replace(claim, acted=claim.revision)
            if claim.id in moved or not ledger.closable(asked, needed_by):
                continue
            del claims[claim.id]
            moved |= {
                need
                for need in claim.needs
                if need in claims and not claims[need].wanted and claims[need].agent != claim.agent
            }
            again = True
