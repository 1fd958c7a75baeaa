"""What goes wrong in a simulated cloud, and what its operator does about it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cumulet.agent.build import Supervisor
from cumulet.core import faults, joining
from cumulet.reconcile import agents

if TYPE_CHECKING:
    from tests.sim.cloud import Run


async def add_fault(run: Run) -> None:
    step = run.random.choice(
        [*faults.steps(), "*.ensure", "*.remove", "volume.*", "export.*", "guest.*", "disk.*"]
    )
    effect = run.random.choice(["fail", "lose", "slow", "hold", "crash"])
    rule = faults.Rule(
        step=step, effect=effect, moment=run.random.choice(["before", "after"]),
        host=run.random.choice([None, None, *run.hosts]), count=run.random.randint(1, 4),
        seconds=run.random.uniform(0.1, 20.0) if effect == "slow" else None,
    )  # fmt: skip
    if effect == "hold":
        rule = faults.Rule(step=step, effect=effect, moment=rule.moment, host=rule.host)
    run.faults += 1
    run.tell(f"fault: {rule}")
    await run.case.db.write(faults.add, rule)


async def clear_faults(run: Run) -> None:
    run.tell("faults are lifted")
    await run.case.release()


async def stop_agent(run: Run) -> None:
    name = run.random.choice([*run.hosts, "sim", "network", "store"])
    run.faults += 1
    if name in run.stopped:
        run.tell(f"{name} comes back")
        run.stopped.discard(name)
        run.case.cloud.agents[name].start()
    else:
        run.tell(f"{name} stops")
        run.stopped.add(name)
        await run.case.cloud.agents[name].stop()


async def restart_agent(run: Run) -> None:
    name = run.random.choice([*run.hosts, "sim", "network", "store"])
    run.faults += 1
    if name not in run.stopped:
        run.tell(f"{name} is restarted")
        await run.case.cloud.agents[name].stop()
        run.case.cloud.agents[name].start()


async def force_down(run: Run) -> None:
    host = run.random.choice(run.hosts)
    down = run.chance(0.5)
    run.faults += 1
    run.tell(f"{host} is forced {'down' if down else 'up'}")
    await run.case.force_down(host, down)


async def disable(run: Run) -> None:
    host = run.random.choice(run.hosts)
    enabled = run.chance(0.6)
    run.tell(f"{host} is {'enabled' if enabled else 'disabled'}")
    await run.case.enable(host, enabled)


async def replace_host(run: Run) -> None:
    """A machine burns down, the operator says so, and another one joins in its place."""
    host = run.random.choice(run.hosts)
    run.faults += 1
    run.tell(f"{host} burns down")
    supervisor = run.case.cloud.agents[host]
    await supervisor.stop()
    run.stopped.discard(host)
    shutil.rmtree(supervisor.directory, ignore_errors=True)
    await run.case.force_down(host, True)
    id = await run.case.db.read(
        lambda tx: tx.value("select id from agents where kind = 'host' and name = :name", name=host)
    )
    await run.case.db.write(joining.destroyed, id)
    del run.case.cloud.agents[host]
    run.hosts.remove(host)
    run.made_hosts += 1
    name = f"n{run.made_hosts}"
    run.tell(f"{name} joins")
    secret = run.case.cloud.chance.token()
    new = await run.case.db.write(agents.register, "host", name, secret)
    run.case.cloud.agents[name] = Supervisor(
        "host", name, run.case.directory / "agents" / f"host-{name}", run.case.cloud.client, new, secret,
        run.case.cloud.config, run.case.cloud.chance, application=run.case.cloud.app,
    )  # fmt: skip
    run.case.cloud.agents[name].start()
    run.hosts.append(name)


async def kill_control(run: Run) -> None:
    """The second control process dies, or comes back; whatever it was doing is left half-done."""
    run.faults += 1
    run.tell("the second control process " + ("dies" if run.second_lives else "comes back"))
    await run.toggle_second()


async def clock_jumps(run: Run) -> None:
    seconds = run.random.choice([-30.0, -3.0, 5.0, 60.0, 600.0])
    run.faults += 1
    run.tell(f"the clock jumps by {seconds} s")
    run.stage.chance.start += seconds


async def wait(run: Run) -> None:
    seconds = run.random.choice([0.0, 0.01, 0.1, 1.0, 10.0, 100.0])
    run.tell(f"{seconds} s pass")
    await asyncio.sleep(seconds)


STEPS: tuple[tuple[int, Callable[[Run], Awaitable[None]]], ...] = (
    (6, add_fault),
    (2, clear_faults),
    (3, stop_agent),
    (2, restart_agent),
    (2, force_down),
    (1, disable),
    (1, replace_host),
    (1, kill_control),
    (1, clock_jumps),
    (16, wait),
)
