"""The stage of the cases in tests/regressions: a running cloud, and the actors of every case.

    async with stage(db, directory) as case:
        server = await case.boot(networks=[{"port": case.port["id"]}])
        ...
        await case.delete(server)
        await case.clean()

``H1``, ``H2``, ``H3`` are hosts, ``N`` and ``N2`` networks, ``P`` a port that the user made, ``V`` and ``W``
volumes. The ledger is looked at before the first call and compared at the end (tests/leftovers.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import httpx2

from cumulet.app import running
from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.db.engine import Database, Tx
from cumulet.drivers import qcow2
from cumulet.errors import Unavailable
from cumulet.reconcile import agents, holders
from tests.cloud import CHEAP, TestCloud, all_known, test_cloud, until
from tests.leftovers import Look, assert_nothing_left, look

COMPUTE, NETWORK, VOLUME, IMAGE, PLACEMENT = (
    "/compute/v2.1", "/network/v2.0", "/volume/v3", "/image/v2", "/placement",
)  # fmt: skip
#: Seconds in which what a case waits for must come true.
TIME = 60.0
NEWEST = "compute 2.96"
H1, H2, H3 = "h1", "h2", "h3"


class Case:
    """One case: see the module."""

    def __init__(self, cloud: TestCloud, directory: Path) -> None:
        self.cloud = cloud
        self.db = cloud.db
        self.directory = directory
        self.before: Look = {}
        self.flavor = self.flavor2 = self.image = ""
        self.network: dict[str, Any] = {}
        self.network2: dict[str, Any] = {}
        self._services: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()

    # --- services ---

    async def begin(self) -> None:
        """Start the workers and the agents."""
        cloud = self.cloud
        self._services = running(cloud.db, cloud.app, cloud.config, cloud.chance, self.directory)
        cloud.agents = await self._services.__aenter__()
        await until(lambda: all_known(cloud))

    async def end(self) -> None:
        """End them, wherever they are."""
        await self._services.__aexit__(None, None, None)

    async def restart(self) -> None:
        """Every service begins anew, with nothing but the database and the agents' directories."""
        await self.end()
        await self.cloud.client.aclose()
        self.cloud = TestCloud(self.db, self.cloud.config, self.cloud.chance)
        await self.begin()

    # --- requests ---

    async def call(
        self, method: str, path: str, *codes: int, as_: str = "demo", version: str = NEWEST, **more: Any
    ) -> httpx2.Response:
        """A request whose status must be one of ``codes`` (200, 201, 202, 204 if none is given)."""
        response = await self.cloud.request(method, path, as_=as_, version=version, **more)
        assert response.status_code in (codes or (200, 201, 202, 204)), (
            f"{method} {path}: {response.status_code} {response.text}"
        )
        return response

    async def get(self, path: str, *codes: int, **more: Any) -> Any:
        return (await self.call("GET", path, *(codes or (200,)), **more)).json()

    # --- actors ---

    async def prepare(self) -> None:
        """The fixtures of every case; the ledger is looked at afterwards."""
        flavors = (await self.get(f"{COMPUTE}/flavors"))["flavors"]
        self.flavor = next(f["id"] for f in flavors if f["name"] == "m1.tiny")
        self.flavor2 = next(f["id"] for f in flavors if f["name"] == "m1.small")
        self.image = await self.make_image()
        self.network, self.network2 = (
            await self.make_network("n", "192.168.1.0/24"),
            await self.make_network("n2", "192.168.2.0/24"),
        )

    async def make_image(self, name: str = "i", **more: Any) -> str:
        body = {"name": name, "disk_format": "qcow2", "container_format": "bare", "visibility": "public"}
        made = await self.call("POST", f"{IMAGE}/images", as_="admin", json={**body, **more})
        id = made.json()["id"]
        await self.call(
            "PUT", f"{IMAGE}/images/{id}/file", 204, as_="admin", content=qcow2.empty(1 << 30),
            headers={"Content-Type": "application/octet-stream"},
        )  # fmt: skip
        return str(id)

    async def make_network(self, name: str, cidr: str) -> dict[str, Any]:
        made = (await self.call("POST", f"{NETWORK}/networks", json={"network": {"name": name}})).json()[
            "network"
        ]
        subnet = await self.call(
            "POST",
            f"{NETWORK}/subnets",
            json={"subnet": {"network_id": made["id"], "ip_version": 4, "cidr": cidr}},
        )
        return {**made, "subnet": subnet.json()["subnet"]["id"]}

    async def make_port(self, network: str | None = None, **more: Any) -> dict[str, Any]:
        body = {"port": {"network_id": network or self.network["id"], **more}}
        found: dict[str, Any] = (await self.call("POST", f"{NETWORK}/ports", json=body)).json()["port"]
        return found

    async def make_volume(self, size: int = 1, **more: Any) -> str:
        """A volume that is available; ``imageRef`` makes it one that a server can boot from."""
        made = await self.call(
            "POST", f"{VOLUME}/volumes", json={"volume": {"size": size, **more}}, version="volume 3.70"
        )
        id = str(made.json()["volume"]["id"])
        await self.volume_is(id, "available")
        return id

    async def make_snapshot(self, volume: str) -> str:
        """A snapshot of a volume, available."""
        body = {"snapshot": {"volume_id": volume, "force": True}}
        made = await self.call("POST", f"{VOLUME}/snapshots", json=body, version="volume 3.70")
        id = str(made.json()["snapshot"]["id"])

        async def check() -> bool:
            found = await self.get(f"{VOLUME}/snapshots/{id}", version="volume 3.70")
            return bool(found["snapshot"]["status"] == "available")

        await self.until(check, f"snapshot {id} to become available")
        return id

    async def make_group(self, name: str = "g") -> str:
        """A security group."""
        made = await self.call("POST", f"{NETWORK}/security-groups", json={"security_group": {"name": name}})
        return str(made.json()["security_group"]["id"])

    # --- servers ---

    async def create(self, *codes: int, name: str = "s", image: str | None = "", **more: Any) -> str:
        """POST /servers; the id, or "" when ``codes`` say that it must be refused."""
        response = await self.ask(*(codes or (202,)), name=name, image=image, **more)
        return str(response.json()["server"]["id"]) if response.status_code == 202 else ""

    async def refused(self, code: int, **more: Any) -> str:
        """POST /servers, which must be refused; the answer's text."""
        return (await self.ask(code, **more)).text

    async def ask(self, *codes: int, name: str = "s", image: str | None = "", **more: Any) -> httpx2.Response:
        """POST /servers, and what it answers."""
        body: dict[str, Any] = {"name": name, "flavorRef": self.flavor, "networks": "none", **more}
        if image is not None:
            body["imageRef"] = image or self.image
        hints = body.pop("hints", None)
        document: dict[str, Any] = {"server": body}
        if hints:
            document["os:scheduler_hints"] = hints
        return await self.call("POST", f"{COMPUTE}/servers", *codes, json=document)

    def devices(self, *volumes: str, doomed: Collection[str] = ()) -> list[dict[str, Any]]:
        """Block devices for ``create``: a local root disk, the volumes, and those that go with the server."""
        found: list[dict[str, Any]] = [
            {"boot_index": 0, "uuid": self.image, "source_type": "image", "destination_type": "local"}
        ]
        for id in (*volumes, *doomed):
            device = {"uuid": id, "source_type": "volume", "destination_type": "volume"}
            found.append({**device, "delete_on_termination": id in doomed})
        return found

    async def servers(self, as_: str = "demo") -> list[str]:
        """The ids of the project's servers, as it lists them."""
        return sorted(one["id"] for one in (await self.get(f"{COMPUTE}/servers", as_=as_))["servers"])

    async def boot(self, status: str = "ACTIVE", **more: Any) -> str:
        """A server that has come to a status."""
        id = await self.create(**more)
        await self.server_is(id, status)
        return id

    async def server(self, id: str, as_: str = "admin") -> dict[str, Any]:
        found: dict[str, Any] = (await self.get(f"{COMPUTE}/servers/{id}", as_=as_))["server"]
        return found

    async def server_is(self, id: str, status: str, task: str | None = None) -> dict[str, Any]:
        """Wait until the server has the status; an ERROR that is not waited for ends the wait."""

        async def check() -> Any:
            server = await self.server(id)
            if server["status"] == "ERROR" != status:
                raise AssertionError(f"server {id} is in ERROR: {server.get('fault')}")
            return server if server["status"] == status and server["OS-EXT-STS:task_state"] == task else None

        found: dict[str, Any] = await self.until(check, f"server {id} to become {status}")
        return found

    async def delete(self, id: str, *codes: int) -> None:
        """DELETE, and poll until 404."""
        await self.call("DELETE", f"{COMPUTE}/servers/{id}", *(codes or (204,)))
        await self.gone(id)

    async def gone(self, id: str) -> None:
        async def check() -> bool:
            response = await self.cloud.get(f"{COMPUTE}/servers/{id}", as_="admin")
            assert response.status_code in (200, 404), response.text
            return response.status_code == 404

        await self.until(check, f"server {id} to be gone")

    async def act(self, id: str, action: str, body: Any = None, *codes: int, as_: str = "demo") -> None:
        await self.call(
            "POST", f"{COMPUTE}/servers/{id}/action", *(codes or (202,)), json={action: body}, as_=as_
        )

    # --- other things ---

    async def port(self, id: str, as_: str = "admin") -> dict[str, Any]:
        found: dict[str, Any] = (await self.get(f"{NETWORK}/ports/{id}", as_=as_))["port"]
        return found

    async def ports_of(self, server: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"{NETWORK}/ports?device_id={server}", as_="admin"))[
            "ports"
        ]
        return found

    async def volume(self, id: str, as_: str = "demo") -> dict[str, Any]:
        found = await self.get(f"{VOLUME}/volumes/{id}", as_=as_, version="volume 3.70")
        volume: dict[str, Any] = found["volume"]
        return volume

    async def volumes(self) -> list[str]:
        """The ids of the project's volumes."""
        return [one["id"] for one in (await self.get(f"{VOLUME}/volumes", version="volume 3.70"))["volumes"]]

    async def volume_is(self, id: str, status: str) -> None:
        async def check() -> bool:
            return bool((await self.volume(id))["status"] == status)

        await self.until(check, f"volume {id} to become {status}")

    async def volume_gone(self, id: str) -> None:
        async def check() -> bool:
            return (await self.cloud.get(f"{VOLUME}/volumes/{id}", version="volume 3.70")).status_code == 404

        await self.until(check, f"volume {id} to be gone")

    async def attachments(self, server: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            await self.get(f"{VOLUME}/attachments?instance_id={server}", as_="demo", version="volume 3.70")
        )["attachments"]
        return found

    async def attachment(self, id: str) -> dict[str, Any]:
        found = await self.get(f"{VOLUME}/attachments/{id}", as_="admin", version="volume 3.70")
        attachment: dict[str, Any] = found["attachment"]
        return attachment

    async def allocations(self, consumer: str) -> dict[str, Any]:
        found: dict[str, Any] = (
            await self.get(f"{PLACEMENT}/allocations/{consumer}", as_="admin", version="placement 1.28")
        )["allocations"]
        return found

    async def allocated(self, consumer: str) -> list[dict[str, Any]]:
        """What is allocated for a consumer: {"provider": name, "resources"}."""
        found = []
        for id, one in (await self.allocations(consumer)).items():
            provider = await self.get(f"{PLACEMENT}/resource_providers/{id}", as_="admin")
            found.append({"provider": provider["name"], "resources": one["resources"]})
        return found

    async def usage(self) -> dict[str, Any]:
        """What the project's compute quota counts."""
        found = (await self.get(f"{COMPUTE}/limits"))["limits"]["absolute"]
        return {name: found[f"total{name}Used"] for name in ("Instances", "Cores", "RAM")}

    async def network_usage(self) -> dict[str, int]:
        """What the project's network quota counts."""
        project = self.cloud.project("demo")
        found = (await self.get(f"{NETWORK}/quotas/{project}/details", as_="admin"))["quota"]
        return {name: found[name]["used"] for name in ("port", "floatingip")}

    async def volume_usage(self) -> dict[str, int]:
        """What the project's volume quota counts."""
        project = self.cloud.project("demo")
        found = (await self.get(f"{VOLUME}/os-quota-sets/{project}?usage=true", as_="admin"))["quota_set"]
        return {name: found[name]["in_use"] for name in ("volumes", "gigabytes", "snapshots")}

    async def limit(self, resource: str, value: int) -> None:
        """Set a limit of the project's compute quota."""
        path = f"{COMPUTE}/os-quota-sets/{self.cloud.project('demo')}"
        await self.call("PUT", path, as_="admin", json={"quota_set": {resource: value}})

    async def usages(self) -> dict[str, int]:
        """What the project's quotas count, all of it."""
        return {**await self.usage(), **await self.network_usage(), **await self.volume_usage()}

    async def actions(self, server: str) -> list[dict[str, Any]]:
        """What was done to a server, which may be gone."""
        found = await self.get(f"{COMPUTE}/servers/{server}/os-instance-actions", as_="admin")
        actions: list[dict[str, Any]] = found["instanceActions"]
        return actions

    def things(self, host: str) -> list[str]:
        """Files of a host's things."""
        base = self.directory / "agents" / f"host-{host}"
        return sorted(
            str(path.relative_to(base))
            for path in base.rglob("*")
            if path.is_file() and path.name not in ("id", "lock", "token")
        )

    def exports(self) -> list[str]:
        base = self.directory / "agents" / "volume-sim" / "export"
        return sorted(path.name for path in base.iterdir())

    async def host_of(self, server: str) -> str | None:
        found: str | None = (await self.server(server))["OS-EXT-SRV-ATTR:host"]
        return found

    @contextlib.contextmanager
    def watching(self, sql: str, **params: Any) -> Iterator[list[Any]]:
        """What a query gives at the end of every transaction, while the block runs; each answer once."""
        seen: list[Any] = []

        def note(tx: Tx) -> None:
            seen.extend(value for value in tx.values(sql, **params) if value not in seen)

        with self._at_every_end(note):
            yield seen

    @contextlib.contextmanager
    def breaking(self, sql: str, **params: Any) -> Iterator[list[str]]:
        """The database fails once, at the end of the first transaction after which a query would find nothing.

        Yields what broke, so that a case can see that something did.
        """
        broken: list[str] = []

        def fail(tx: Tx) -> None:
            if not broken and tx.one(sql, **params) is None:
                broken.append(sql)
                raise Unavailable("The database does not answer; the request was not carried out.")

        with self._at_every_end(fail):
            yield broken

    @contextlib.contextmanager
    def _at_every_end(self, function: Callable[[Tx], None]) -> Iterator[None]:
        """Something is called last in every transaction, while the block runs."""
        write = self.db.write
        outer = self.db.__dict__.get("write")

        async def watched(wrapped: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            def inner(tx: Tx) -> Any:
                result = wrapped(tx, *args, **kwargs)
                tx.before_commit[f"watch {id(function)}"] = function
                return result

            return await write(inner)

        self.db.write = watched  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self.db.write
            if outer is not None:
                self.db.write = outer  # type: ignore[method-assign]

    # --- faults ---

    async def fault(self, step: str, effect: str = "fail", count: int | None = 1, **more: Any) -> str:
        """A fault rule; see core/faults.py.

        What fails once is tried again at once, so it may come right before anybody hears of it: who waits for
        the consequences lets it fail until they are there (``count`` None, and then ``release``).
        """
        return await self.db.write(faults.add, faults.Rule(step=step, effect=effect, count=count, **more))

    async def release(self, rule: str | None = None) -> None:
        """Remove one rule, or all; who is held goes on."""
        if rule is None:
            await self.db.write(faults.clear)
        else:
            await self.db.write(faults.remove, rule)

    async def rules(self) -> list[dict[str, Any]]:
        """The fault rules that are left: one with a count goes when it was used up."""
        return await self.db.read(faults.listing)

    async def instead(self, rule: str, step: str, effect: str = "fail", **more: Any) -> str:
        """Let go whom a rule holds, straight into another one."""

        def swap(tx: Tx) -> str:
            faults.remove(tx, rule)
            return faults.add(tx, faults.Rule(step=step, effect=effect, **{"count": 1, **more}))

        return await self.db.write(swap)

    async def waits(self, holder: str, reason: str) -> None:
        """Wait until a holder waits for that reason."""

        async def check() -> bool:
            sql = "select waiting from holders where id = :id"
            return bool(await self.db.read(lambda tx: tx.value(sql, id=holder)) == reason)

        await self.until(check, f"{holder} to wait: {reason}")

    async def struck(self, rule: str) -> None:
        """Wait until a rule has hit."""

        async def check() -> bool:
            left = [one for one in await self.rules() if one["id"] == rule]
            return not left or left[0]["hits"] > 0

        await self.until(check, "the fault to strike")

    async def held(self, step: str, moment: str = "before") -> str:
        """A rule that holds a step until it is released."""
        return await self.fault(step, "hold", None, moment=moment)

    async def holding(self, kind: str) -> None:
        """Wait until an agent works on a claim of that kind: it stands at the step that is held."""

        async def check() -> bool:
            return any(
                agent.agent is not None
                and any(
                    agent.agent.claims[id].kind == kind
                    for id in agent.agent._tasks
                    if id in agent.agent.claims
                )
                for agent in self.cloud.agents.values()
            )

        await self.until(check, f"a {kind} to be held")

    async def down(self, host: str) -> None:
        """The host's service stops reporting and takes no work; guest and disk stay."""
        await self.cloud.agents[host].stop()
        await self.force_down(host, True)

    async def up(self, host: str) -> None:
        self.cloud.agents[host].start()
        await self.force_down(host, False)

    async def silent(self, agent: str) -> None:
        """An agent that is not a host ends, and is judged silent: its patience has passed. ``start`` brings it back."""
        await self.cloud.agents[agent].stop()
        patience = self.cloud.config.reconcile.patience

        def judge(tx: Tx) -> list[str]:
            tx.run(
                "update agents set seen_at = :then where name = :name", then=tx.now - 2 * patience, name=agent
            )
            return agents.judge(tx, patience, 0.0)

        assert await self.db.write(judge) == [agent]

    def start(self, *names: str) -> None:
        """Start agents that were ended."""
        for name in names:
            self.cloud.agents[name].start()

    async def patience_ends(self) -> None:
        """Whatever fails has failed for longer than the patience, and who waits until then does so no more."""
        patience = self.cloud.config.reconcile.patience

        def age(tx: Tx) -> None:
            tx.run(
                "update claims set failing_since = failing_since - :patience where failing_since is not null",
                patience=patience,
            )
            tx.run("update holders set due = due - :patience where due is not null", patience=patience)
            tx.wakes.add("due")

        await self.db.write(age)

    async def build_time_ends(self, server: str) -> None:
        """The build of a server has taken as long as it may."""

        def end(tx: Tx) -> None:
            tx.update("servers", server, build_until=tx.now)
            holders.later(tx, server)

        await self.db.write(end)

    async def owed(self) -> list[dict[str, Any]]:
        """What an operator sees that is still to be done: who waits, and what agents owe."""
        waiting = await self.get("/cumulet/v1/holders", as_="admin")
        debts = await self.get("/cumulet/v1/debts", as_="admin")
        return [*waiting["holders"], *debts["debts"]]

    async def service(self, host: str) -> str:
        services = (await self.get(f"{COMPUTE}/os-services?host={host}&binary=nova-compute", as_="admin"))[
            "services"
        ]
        return str(services[0]["id"])

    async def force_down(self, host: str, down: bool) -> None:
        await self.call(
            "PUT",
            f"{COMPUTE}/os-services/{await self.service(host)}",
            as_="admin",
            json={"forced_down": down},
        )

    async def enable(self, host: str, enabled: bool) -> None:
        status = "enabled" if enabled else "disabled"
        await self.call(
            "PUT", f"{COMPUTE}/os-services/{await self.service(host)}", as_="admin", json={"status": status}
        )

    # --- the end ---

    async def until(self, check: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Ask until it is true. Fails after TIME, saying what was waited for and what the cloud waits for."""
        idle = getattr(asyncio.get_running_loop(), "idle", None)
        try:
            async with asyncio.timeout(TIME):
                while True:
                    if idle is not None:
                        await idle()  # a clock that jumps: asking sooner would tell nothing new
                    found = await check()
                    if found:
                        return found
                    await asyncio.sleep(0.002 if idle is None else 0.02)
        except TimeoutError:
            waits = await self.db.read(
                lambda tx: tx.all(
                    "select id, kind, due, rule, waiting from holders where waiting is not null or due is not null"
                )
            )
            servers = await self.db.read(
                lambda tx: tx.all("select id, desired, vm_state, task_state, host, attempts from servers")
            )
            claims = await self.db.read(
                lambda tx: tx.all(
                    "select kind, part, wanted, seen, error, holder from claims where not wanted or error is not null"
                )
            )
            raise AssertionError(
                f"waited in vain for {what}; servers: {servers}; waiting: {waits}; claims: {claims}"
            ) from None

    async def settle(self) -> None:
        """No work is under way, and everybody has looked at everything twice."""
        for _ in range(2):
            await self.until(self._at_rest, "the cloud to settle")
            for agent in self.cloud.agents.values():
                if agent.agent is not None:
                    await agent.agent.audit()
        await self.until(self._at_rest, "the cloud to settle")

    async def _at_rest(self) -> bool:
        still = await self._still(
            "select 1 from holders where due <= :now union all select 1 from claims where not wanted or "
            "(wanted and (seen <> 'present' or acted < revision or error is not null))"
        )
        agents = [agent.agent for agent in self.cloud.agents.values() if agent.agent is not None]
        return still and not any(agent._tasks or agent._outbox for agent in agents)

    async def hangs(self) -> None:
        """Nothing moves any more, but for what fails again and again, and what waits behind it."""
        await self.until(self._hangs, "the cloud to get no further")

    async def _hangs(self) -> bool:
        return await self._still(
            "select 1 from holders where due <= :now union all select 1 from claims c where error is null and "
            "(wanted and (seen <> 'present' or acted < revision) or not wanted and not exists "
            "(select 1 from needs n where n.needs = c.id))"
        )

    async def _still(self, moves: str) -> bool:
        """True if a query finds nothing, and no transaction was under way or ended meanwhile.

        What is to follow a transaction is not in the database; see db.engine.Tx.afterwards.
        """
        before = self._transactions()
        found = await self.db.read(lambda tx: tx.one(moves, now=tx.now))
        return found is None and before == self._transactions() == (before[0], 0)

    def _transactions(self) -> tuple[int, int]:
        """How many have ended, and how many are under way; on SQLite each runs where it is called."""
        limit = getattr(self.db, "_limit", None)
        return self.db.commits, limit.borrowed_tokens if limit else 0

    def remember(self) -> None:
        """Look at the ledger; ``clean`` compares with the last look."""
        self.before = look(self.db, self.directory)

    async def clean(self, *without: str) -> None:
        """The ledger is as before, but for rows and files that name one of ``without``."""
        await self.settle()
        self.clean_now(*without)

    def clean_now(self, *without: str) -> None:
        assert_nothing_left(self.before, look(self.db, self.directory), without=without)

    async def left_of(self, *ids: str) -> list[str]:
        """Rows that name one of the ids, but for history."""
        rows = look(self.db, self.directory)
        return [f"{table}: {row}" for table in rows for row in rows[table] if any(id in row for id in ids)]

    def clean_at_once(self, *without: str) -> None:
        """``clean_now`` in the first moment of a 404: only what the network's agent has of ports may go later.

        A port's row is gone when its DELETE is answered, whoever asked; its agent owes the rest from then on.
        """
        owed = self.db.read_now(  # type: ignore[attr-defined]
            lambda tx: tx.values(
                "select id from claims where kind = 'lport' and holder is null and not wanted"
            )
        )
        before, after = _at_once(self.before), _at_once(look(self.db, self.directory))
        assert_nothing_left(before, after, without=(*without, *owed))


def _at_once(found: Look) -> Look:
    """Without the case's own faults, and without the queue's rows of ports, which tell whom they wait for."""
    queue = frozenset(row for row in found["holders"] if '"kind": "port"' not in row)
    return {**found, "holders": queue, "faults": frozenset()}


@contextlib.asynccontextmanager
async def stage(
    db: Database, directory: Path, *, hosts: int = 3, without: Collection[str] = (), **reconcile: Any
) -> AsyncIterator[Case]:
    """A running cloud with the fixtures of every case; ``reconcile``: settings like ``patience``."""
    config = Config(auth=CHEAP, hosts=Hosts(count=hosts), reconcile=Reconcile(**reconcile))
    async with test_cloud(db, config=config) as cloud:
        case = Case(cloud, directory)
        await case.begin()
        try:
            await case.prepare()
            await case.settle()
            case.remember()
            yield case
        finally:
            await case.end()
