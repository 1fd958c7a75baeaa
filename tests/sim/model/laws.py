"""The laws of the small cloud. Each raises Broken, and says what is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from cumulet.reconcile.plan import base
from cumulet.values import Claim
from cumulet.wire import agent as wire
from tests.sim.model import things
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import IMAGE, POWER, SERVER, VOLUME, Broken, Control, Thing, World, here


def check(cloud: Cloud, w: World) -> None:
    """What holds in every world."""
    open_ = {claim.id: claim for claim in w.control.claims}
    for name, agent in zip(cloud.names, w.agents, strict=True):
        coming = {helper.id for helper in agent.helpers if helper.verb == "make"}
        lost = sorted(({thing.id for thing in agent.things} | coming) - set(open_))
        if lost and not w.restored:
            raise Broken(f"{', '.join(lost)} on {name} is in no ledger")
    for holder, row in ((SERVER, w.control.server), (VOLUME, w.control.volume), (IMAGE, w.control.image)):
        if row is None and any(claim.holder == holder for claim in w.control.claims):
            raise Broken("a claim's holder is gone")
    if not cloud.torn:
        _check_guests(cloud, w, open_)


def _check_guests(cloud: Cloud, w: World, open_: dict[str, Claim]) -> None:
    exports = [thing.id for _, thing in here(w, "export") if thing.id in open_]
    guests = [guest for _, guest in here(w, "guest") if guest.id in open_]
    for user in (*guests, *(one for _, one in here(w, "connection") if one.id in open_)):
        if user.id not in w.control.left and not set(exports).issuperset(user.uses):
            raise Broken(f"the export of {user.id} was torn away while it is there")
    # While a server moves live, each of the two hosts has an export.
    if len(exports) > 1 and "live-migrates" not in w.done:
        raise Broken(f"the volume has two writers: {', '.join(sorted(exports))}")
    writers = things.writers(cloud, w)
    if len(writers) > 1:
        raise Broken(f"the volume has two writers: {', '.join(sorted(writers))}")
    running = [guest.id for guest in guests if guest.runs and guest.id not in w.control.left]
    if len(running) > 1:
        raise Broken(f"two guests of the server run: {', '.join(sorted(running))}")
    if (
        w.control.server is not None
        and running
        and w.control.server.desired != "gone"
        and not w.control.consumers
    ):
        raise Broken(f"{running[0]} runs without an allocation")


# --- what is removed ---


def check_removed(w: World, ids: Iterable[str]) -> None:
    """Only what was given up is removed."""
    wrong = set(ids) - set(w.control.given_up)
    if wrong:
        raise Broken(f"{', '.join(sorted(wrong))} was removed, and nobody had given it up")


def check_ended(w: World, thing: Thing) -> None:
    """Nobody ends a guest that runs, nor removes the last of the data, unless that was asked for."""
    row = w.control.server
    if row is None or row.desired in ("gone", "failed") or not row.launched or thing.id in w.control.left:
        return
    if thing.kind == "guest" and thing.runs and "live-migrates" in w.done and POWER not in w.done:
        raise Broken(f"{thing.id} was ended, and it was the one that ran")
    if thing.kind == "disk" and not _kept(w) and not {"evacuates", "deletes the image"} & set(w.done):
        raise Broken(f"{thing.id} was removed, and the server's data is nowhere else")


def _kept(w: World) -> bool:
    """A whole disk, or file of the image that the server is shelved in, is left."""
    wanted = {claim.id for claim in w.control.claims if claim.wanted and claim.holder is not None}
    row = w.control.server
    kinds = ("disk", "file") if row is not None and row.shelved else ("disk",)
    return any(
        thing.kind in kinds and not thing.torn and thing.id in wanted
        for agent in w.agents
        for thing in agent.things
    )


# --- what is made ---


def check_opened(c: Control, change: base.Open) -> None:
    """What keeps data is not made anew, empty, unless that was asked for."""
    row = c.server
    if change.kind != "disk" or row is None or not row.launched or change.spec.keys() & {"copy", "mirror"}:
        return
    if change.spec.get("image") == "its own":
        return
    if row.move is not None and row.move.type == "evacuation":
        return
    raise Broken(f"a disk is made anew on {change.agent}, although the server had one")


def check_given_up(c: Control) -> None:
    """An image whose copy is whole stays, whatever became of the server, unless the copy or the file fails."""
    claims = [claim for claim in c.claims if claim.holder == IMAGE]
    source = next((claim for claim in claims if claim.kind == "source"), None)
    if source is None or not source.made or source.seen != "present" or source.agent in c.away:
        return
    if any(claim.error is not None for claim in claims):
        return
    raise Broken(f"the image was given up, although {source.id} is whole")


def check_made(w: World, i: int, claim: wire.Claim) -> None:
    """What kept data is not made again."""
    if claim.kind == "disk" and claim.id in w.disks and w.agents[i].thing(claim.id) is None:
        raise Broken(f"{claim.id} kept data, and was made again")


def check_copied(w: World, claim: wire.Claim, original: str) -> None:
    """What is copied is there for as long as somebody wants the copy."""
    open_ = {one.id: one for one in w.control.claims}
    mine = open_.get(claim.id)
    if mine is None or not mine.wanted or {claim.id, original} & set(w.control.left):
        return
    raise Broken(f"{claim.id} is copied from {original}, which is not there")


def must_rest(w: World, claim: wire.Claim) -> bool:
    """A copy for a move is one of a disk that nobody writes to."""
    return claim.holder == SERVER


def check_boot(w: World, i: int, claim: wire.Claim, before: Thing | None) -> None:
    """A guest starts from whole disks, and with its memory if it waited for that."""
    for need in claim.needs:
        disk = w.agents[i].thing(need.id)
        if need.kind == "disk" and disk is not None and disk.torn:
            raise Broken(f"{claim.id} starts from {need.id}, which is not whole")
    if before is not None and "incoming" in before.facts and POWER not in w.done:
        raise Broken(f"{claim.id} starts without the memory that it waited for")


# --- what comes of it ---


def check_success(cloud: Cloud, w: World) -> None:
    """Where nothing went wrong, and nobody took it back, what was asked for has come true."""
    row, done, undone = w.control.server, set(w.done), {"reverts", "aborts", "unshelves", "deletes the image"}
    if row is None or w.faults or cloud.unsteady or done & undone:
        return
    if done & {"migrates", "live-migrates"} and row.host != "h2":
        raise Broken("nothing went wrong, and the server did not move")
    if "shelves" in done and row.vm_state != "shelved_offloaded":
        raise Broken("nothing went wrong, and the server was not shelved")
    if "takes an image" in done and (w.control.image is None or w.control.image.status != "active"):
        raise Broken("nothing went wrong, and there is no image")
