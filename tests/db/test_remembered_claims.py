"""What a transaction remembers of a holder's claims is what the database has, whatever is written meanwhile."""

from __future__ import annotations

import random

import pytest

from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents, ledger
from cumulet.values import Claim

pytestmark = pytest.mark.anyio

KINDS = ("disk", "tap", "export", "connection", "guest")


def _read(tx: Tx, holder: str) -> tuple[Claim, ...]:
    """Past what is remembered."""
    remembered = tx.remembered.pop("claims", {})
    found = ledger.of_holder(tx, holder)
    tx.remembered["claims"] = remembered
    return found


def _step(tx: Tx, chance: random.Random, hosts: list[str]) -> None:
    holder = chance.choice(("a", "b"))
    claims = ledger.of_holder(tx, holder)
    one = chance.choice(claims) if claims else None
    others = [claim.id for claim in (*claims, *ledger.of_holder(tx, "a"))]
    what = chance.choice(("open", "open", "respec", "unwant", "drop", "leave", "hand over"))
    spec = {"n": chance.randrange(100), "parts": [{"x": None}], "sizes": {"a": 1.5}}
    if what == "open" or one is None:
        needs = chance.sample(others, min(len(others), chance.randrange(3)))
        kind = chance.choice(KINDS)
        ledger.open(
            tx,
            holder=holder,
            kind=kind,
            agent=chance.choice(hosts),
            spec=spec,
            needs=set(needs),
            part=str(len(claims)),
        )
    elif what == "respec":
        ledger.respec(tx, one, spec, [id for id in others[:2] if id != one.id])
    elif what == "unwant":
        ledger.unwant(tx, chance.sample(claims, min(len(claims), 2)))
    elif what == "drop" and one.needs:
        ledger.drop_need(tx, one.id, one.needs[0])
    elif what == "leave":
        ledger.leave(tx, one, "for the test")
    elif what == "hand over":
        ledger.hand_over(tx, one.id, "b" if holder == "a" else "a")


@pytest.mark.parametrize("seed", range(5))
async def test_it_follows_what_is_written(db: Database, seed: int) -> None:
    chance = random.Random(seed)

    def prepare(tx: Tx) -> list[str]:
        for holder in ("a", "b"):
            tx.insert("holders", id=holder, kind="server")
        return [agents.register(tx, "host", name, "token") for name in ("h1", "h2")]

    def work(tx: Tx, hosts: list[str]) -> None:
        for _ in range(25):
            _step(tx, chance, hosts)
            for holder in ("a", "b"):
                assert ledger.of_holder(tx, holder) == _read(tx, holder)

    hosts = await db.write(prepare)
    for _ in range(3):
        await db.write(work, hosts)
