"""Fault rules: a cloud that misbehaves on request, so that people can test how their software copes.

A rule says what goes wrong (``fail`` before the effect, ``lose`` the answer after it, be ``slow``, ``hold``
until the rule is removed, ``crash`` the agent), at which step ("guest.ensure", "volume.*"), for which server
(by name or id) and host, and how often. Rules act at drivers and at seams of the control plane, never in the
core.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid, NotFound
from cumulet.values import CLAIM_KINDS

EFFECTS = ("fail", "lose", "slow", "hold", "crash")
#: Steps of the control plane itself.
SEAMS = ("schedule", "volume.schedule")
#: Rules at the most.
LIMIT = 100


class Rule(msgspec.Struct, frozen=True):
    """A fault rule as it is asked for."""

    step: str
    effect: str
    moment: str = "before"
    server: str | None = None
    host: str | None = None
    #: How often; None for always.
    count: int | None = None
    seconds: float | None = None
    message: str | None = None


class Strike(msgspec.Struct, frozen=True):
    """What is to happen at a step."""

    effect: str = ""
    rule: str = ""
    seconds: float = 0.0
    message: str = ""


def steps() -> list[str]:
    """Every step that a rule can name."""
    return [f"{kind}.{verb}" for kind in CLAIM_KINDS for verb in ("ensure", "remove")] + list(SEAMS)


def add(tx: Tx, rule: Rule) -> str:
    """Store a rule; return its id. Raises Invalid, naming the field."""
    if rule.effect not in EFFECTS:
        raise Invalid(
            f"Invalid input for field/attribute effect: {rule.effect!r} is none of {', '.join(EFFECTS)}."
        )
    if rule.moment not in ("before", "after"):
        raise Invalid(
            f"Invalid input for field/attribute moment: {rule.moment!r} is neither before nor after."
        )
    if not any(fnmatchcase(step, rule.step) for step in steps()):
        raise Invalid(
            f"Invalid input for field/attribute step: {rule.step!r} matches no step. See GET /cumulet/v1/steps."
        )
    if rule.effect == "slow" and not 0 < (rule.seconds or 0) <= 3600:
        raise Invalid("Invalid input for field/attribute seconds: slow needs a time of up to 3600 seconds.")
    if rule.count is not None and not 0 < rule.count <= 1_000_000:
        raise Invalid("Invalid input for field/attribute count: it must be from 1 to 1000000.")
    if int(tx.value("select count(*) from faults")) >= LIMIT:
        raise Invalid(f"There are {LIMIT} fault rules already; remove some.")
    id = tx.uuid()
    tx.insert(
        "faults", id=id, step=rule.step, effect=rule.effect, moment="after" if rule.effect == "lose" else rule.moment,
        server=rule.server, host=rule.host, remaining=rule.count, seconds=rule.seconds, message=rule.message,
        created_at=tx.now,
    )  # fmt: skip
    _announce(tx)
    return id


def remove(tx: Tx, id: str) -> None:
    """Remove a rule; who it holds goes on. Raises NotFound."""
    if not tx.delete("faults", id):
        raise NotFound(f"Fault rule {id} could not be found.")
    _announce(tx)


def clear(tx: Tx) -> None:
    """Remove all rules."""
    tx.run("delete from faults")
    _announce(tx)


def _announce(tx: Tx) -> None:
    """Agents learn from their next answer whether there are rules; holders that were held are looked at again."""
    tx.wakes.update({"faults", *tx.values("select id from agents")})
    tx.run(
        "update holders set due = :now where rule in ('choose a host', 'choose a target', 'choose a back end')",
        now=tx.now,
    )
    tx.wakes.add("due")


def listing(tx: Tx) -> list[Row]:
    return tx.all("select * from faults order by created_at, id")


def strike(tx: Tx, agent: str, claim_id: str, step: str, moment: str) -> Strike:
    """What happens to an agent at a step of a claim. A rule with a count is used up by it, holds excepted."""
    subject = _subject(tx, agent, claim_id)
    while True:
        rules = tx.all("select * from faults where moment = :moment order by created_at, id", moment=moment)
        hit = next((rule for rule in rules if _hits(rule, step, subject)), None)
        if hit is None:
            return Strike()
        rule = tx.one(f"select * from faults where id = :id{tx.for_update}", id=hit["id"])
        if rule is not None:
            _use(tx, rule)
            return Strike(rule["effect"], rule["id"], rule["seconds"] or 0.0, rule["message"] or "")
        # It was removed, or used up, at this moment; another one may have come in its place.


def _subject(tx: Tx, agent: str, claim_id: str) -> Mapping[str, Any]:
    row = tx.one(
        "select a.name as host, c.opened_for, c.spec, c.part from agents a left join claims c on c.id = :claim and c.agent = a.id "
        "where a.id = :agent",
        claim=claim_id, agent=agent,
    )  # fmt: skip
    assert row is not None
    names = {row["opened_for"], row["part"]}
    server = tx.one("select name from servers where id = :id", id=row["opened_for"] or "")
    if server is None:
        # A volume's, port's or image's claim belongs to the server that the volume or port is for.
        server = tx.one(
            "select s.id, s.name from servers s where s.id in (select server_id from block_devices where volume_id = :id "
            "union select server_id from interfaces where port_id = :id) or s.shelved_image_id = :id limit 1",
            id=row["opened_for"] or "",
        )
        if server is not None:
            names.add(server["id"])
    if server is not None:
        names.add(server["name"])
    return {"host": row["host"], "names": names}


def _hits(rule: Row, step: str, subject: Mapping[str, Any]) -> bool:
    return (
        fnmatchcase(step, rule["step"])
        and (rule["host"] is None or rule["host"] == subject["host"])
        and (rule["server"] is None or rule["server"] in subject["names"])
    )


def _use(tx: Tx, rule: Row) -> None:
    """Count a hit. A hold lasts until its rule is removed, so it is not used up."""
    if rule["effect"] == "hold":
        tx.update("faults", rule["id"], hits=rule["hits"] + 1)
        return
    if rule["remaining"] is not None and rule["remaining"] <= 1:
        tx.delete("faults", rule["id"])
        return
    remaining = None if rule["remaining"] is None else rule["remaining"] - 1
    tx.update("faults", rule["id"], remaining=remaining, hits=rule["hits"] + 1)
