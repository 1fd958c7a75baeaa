"""Every step of a server's life by everything that can go wrong at it by a delete at every moment: nothing is left.

The steps are collected from the code, so a new kind of claim is covered without anybody remembering it, and
the run fails if a step that a server takes was not hit by every fault.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.values import CLAIM_KINDS
from tests.case import Case
from tests.cloud import CHEAP
from tests.virtual import Stage

#: Kinds that a server with a disk, a volume of its own, a user's volume and two ports goes through. What is
#: missing here has no part in a create or delete; the test below holds this list against the code.
TAKEN = ("volume", "lport", "disk", "export", "connection", "tap", "guest")
OTHERS = {
    "file": "the image's, which outlives the server",
    "snapshot": "of volumes",
    "backup": "of volumes",
    "switch": "the network's, which outlives the server",
    "lrouter": "the router's",
    "nat": "the floating IP's",
    "source": "of a shelve or snapshot",
}
STEPS = [f"{kind}.{verb}" for kind in TAKEN for verb in ("ensure", "remove")]
FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"effect": "fail"},
    "refused three times": {"effect": "fail", "count": 3},
    "done, but the answer is lost": {"effect": "lose"},
    "crash before": {"effect": "crash"},
    "crash after": {"effect": "crash", "moment": "after"},
    "slow": {"effect": "slow", "seconds": 3.0},
    "held before": {"effect": "hold", "count": None},
    "held after": {"effect": "hold", "count": None, "moment": "after"},
}
MOMENTS = ("at once", "when it strikes", "in the end")


def test_every_kind_is_accounted_for() -> None:
    assert set(TAKEN) | set(OTHERS) == set(CLAIM_KINDS)


@pytest.fixture(scope="module")
def case() -> Iterator[Case]:
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        config = Config(auth=CHEAP, hosts=Hosts(count=3), reconcile=Reconcile(patience=60.0))
        stage = Stage(Path(directory), config)
        made = Case(stage.cloud, Path(directory))
        made.stage = stage  # type: ignore[attr-defined]
        stage.run(made.prepare())
        made.own_port = stage.run(made.make_port())["id"]  # type: ignore[attr-defined]
        made.own_volume = stage.run(made.make_volume())  # type: ignore[attr-defined]
        stage.run(made.settle())
        made.remember()
        yield made
        stage.close()


HIT: set[tuple[str, str]] = set()


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_left(case: Case, step: str, record_property: Callable[[str, object], None]) -> None:
    record_property("combinations of step, fault and what comes then", len(FAULTS) * len(MOMENTS))
    for fault, moment in itertools.product(FAULTS, MOMENTS):
        try:
            case.stage.run(_one(case, step, fault, moment))  # type: ignore[attr-defined]
        except BaseException as error:
            error.add_note(f"{step}, {fault}, delete {moment}")
            raise
    missing = set(FAULTS) - {fault for name, fault in HIT if name == step}
    assert not missing, f"{step} was never hit by {missing}"


async def _one(case: Case, step: str, fault: str, moment: str) -> None:
    """Create, break, delete; then everything must be as before."""
    rule = await case.fault(**{"step": step, "count": 1, **FAULTS[fault]})
    server = await case.create(
        config_drive=True,
        networks=[{"port": case.own_port}, {"uuid": case.network2["id"]}],  # type: ignore[attr-defined]
        block_device_mapping_v2=[
            {"uuid": case.image, "source_type": "image", "destination_type": "local", "boot_index": 0},
            {"uuid": case.own_volume, "source_type": "volume", "destination_type": "volume"},  # type: ignore[attr-defined]
            {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "delete_on_termination": True},
        ],
    )  # fmt: skip
    if moment == "when it strikes" and step.endswith("ensure"):
        await _struck(case, rule, server)
    elif moment == "in the end" and (step.endswith("remove") or not fault.startswith("held")):
        await case.until(lambda: _built(case, server), "the build to end")
    await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204)
    if fault.startswith("held"):
        if await _struck(case, rule, server):
            HIT.add((step, fault))
        await case.release(rule)
    await case.gone(server)
    row = next((row for row in await case.db.read(faults.listing) if row["id"] == rule), None)
    if not fault.startswith("held") and (row is None or row["hits"]):
        HIT.add((step, fault))
    await case.release()
    await case.clean()


async def _built(case: Case, server: str) -> bool:
    return (await case.server(server))["status"] in ("ACTIVE", "ERROR")


async def _struck(case: Case, rule: str, server: str) -> bool:
    """Wait until the rule has hit, or the cloud is at rest without it."""
    found: list[bool] = []

    async def known() -> bool:
        row = next((row for row in await case.db.read(faults.listing) if row["id"] == rule), None)
        found.append(row is None or row["hits"] > 0)
        return found[-1] or await case._at_rest()

    await case.until(known, "the fault to strike, or the cloud to come to rest")
    return found[-1]
