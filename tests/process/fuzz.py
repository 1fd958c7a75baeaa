"""Users and an operator who ask at random, of a cloud in real processes that are killed meanwhile.

    python -m tests.process.fuzz --seconds 600

What is asked comes from the route tables, with good bodies and bad ones; fault rules come and go, the control process
and a host are killed and started again. In the end everything is deleted, and nothing may be left. The exit code is 0
only then.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from cumulet.api.asgi import Area, Route
from cumulet.chance import RealChance
from cumulet.db.engine import PostgresDatabase, SqliteDatabase
from cumulet.drivers import qcow2
from tests.bodies import BODIES, CREATES, OPERATORS
from tests.hostile import VALUES, Ask, places, put, with_json
from tests.process.cumulet import Cloud, Program, await_clean, ledger, run, until
from tests.routes import filled, key, lines, members_may, parameters, path_of, version_of
from tests.sim import laws

#: Seconds in which every request must be answered: longer than a fault rule holds one, and than a restart takes.
ANSWER = 60.0
#: Seconds in which everything must be gone that was deleted.
END = 120.0
#: Short times, so that a run of seconds sees them pass.
TIMES = {
    "CUMULET_RECONCILE_PATIENCE": "3", "CUMULET_RECONCILE_BUILD_TIME": "15", "CUMULET_RECONCILE_SWEEP": "2",
    "CUMULET_RECONCILE_SWEEP_FLOOR": "2", "CUMULET_HOSTS_COUNT": "3", "CUMULET_AUTH_THROTTLE_FAILURES": "1000000",
}  # fmt: skip
PASSWORD = "secret-enough"

#: Things by the line that makes them: the thing, and the noun of the answer.
MADE: dict[str, tuple[str, str]] = {
    "compute POST /v2.1/servers": ("server", "server"),
    "compute POST /v2.1/os-volumes_boot": ("server", "server"),
    "compute POST /v2.1/os-keypairs": ("keypair", "keypair"),
    "compute POST /v2.1/os-server-groups": ("server_group", "server_group"),
    "compute POST /v2.1/os-volumes": ("volume", "volume"),
    "compute POST /v2.1/os-snapshots": ("snapshot", "snapshot"),
    "image POST /v2/images": ("image", ""),
    "network POST /v2.0/networks": ("network", "network"),
    "network POST /v2.0/subnets": ("subnet", "subnet"),
    "network POST /v2.0/subnetpools": ("pool", "subnetpool"),
    "network POST /v2.0/ports": ("port", "port"),
    "network POST /v2.0/security-groups": ("security_group", "security_group"),
    "network POST /v2.0/security-group-rules": ("rule", "security_group_rule"),
    "network POST /v2.0/routers": ("router", "router"),
    "network POST /v2.0/floatingips": ("floatingip", "floatingip"),
    "network POST /v2.0/rbac-policies": ("policy", "rbac_policy"),
    "network POST /v2.0/trunks": ("trunk", "trunk"),
    "volume POST /v3/volumes": ("volume", "volume"),
    "volume POST /v3/snapshots": ("snapshot", "snapshot"),
    "volume POST /v3/backups": ("backup", "backup"),
    "volume POST /v3/attachments": ("attachment", "attachment"),
    "volume POST /v3/volume-transfers": ("transfer", "transfer"),
    "volume POST /v3/groups": ("group", "group"),
    "volume POST /v3/groups/action create-from-src": ("group", "group"),
    "volume POST /v3/group_snapshots": ("group_snapshot", "group_snapshot"),
    "identity POST /v3/users/{user_id}/application_credentials": (
        "application_credential",
        "application_credential",
    ),
    "identity POST /v3/credentials": ("credential", "credential"),
    "identity POST /v3/OS-TRUST/trusts": ("trust", "trust"),
}
#: Names of tests.tenants for other things of the same kind.
KINDS = {
    "loose_port": "port", "fip_port": "port", "sub_port": "port", "trunk_port": "port", "attached_volume": "volume",
    "client_volume": "volume", "grouped_volume": "volume", "transferred_volume": "volume", "loose_group": "security_group",
    "queued_image": "image",
}  # fmt: skip
#: Lines that no user of a run asks: they change the user itself, or the cloud for all.
LEFT_OUT = {
    "identity POST /v3/users/{user_id}/password": "it would lock the user out",
    "identity POST /v3/users/{user_id}/credentials/OS-EC2": "it is listed by another name than it is made",
    "image POST /v2/images/{image_id}/import": "it would reach for the network",
}
AREAS = {"compute", "network", "volume", "image", "identity"}
IDENTITY = ("application_credentials", "/credentials", "OS-TRUST")


class Wrong(AssertionError):
    """Something that must not be."""


@dataclass
class Fuzz:
    """One run."""

    seed: int
    directory: Path
    database: str = ""
    tell: Callable[[str], None] = lambda _: None
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    answers: dict[int, int] = field(default_factory=dict)
    faults: int = 0
    kills: int = 0
    #: Cleared while the control process is down; a request that a kill hits may fail.
    up: threading.Event = field(default_factory=threading.Event)
    #: How often it was killed.
    generation: int = 0
    cloud: Any = None
    host: Any = None
    output: list[str] = field(default_factory=list)
    #: What could not be removed the last time, and why.
    stays: dict[str, str] = field(default_factory=dict)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    # --- processes ---

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self, port: str = "0") -> None:
        words = ["--database", self.database] if self.database else []
        self.cloud = Cloud(self.data, "--port", port, *words, env=TIMES).ready()
        self.port = self.cloud.url.rsplit(":", 1)[1]
        self.up.set()

    def kill(self) -> None:
        """The control process dies, and comes back."""
        self.kills += 1
        self.generation += 1
        self.up.clear()
        self.cloud.kill()
        self.output += self.cloud.lines
        self.cloud.close()
        self.start(self.port)

    def join(self) -> None:
        self.host = Program(
            "host", "join", self.cloud.url, "--name", "far", "--state", self.directory / "far",
            env={"CUMULET_HOST_TOKEN": self.token},
        )  # fmt: skip

    def kill_host(self) -> None:
        """The host's process dies, or is dead and comes back."""
        self.kills += 1
        if self.host.process.poll() is None:
            self.tell("the host is killed")
            self.host.kill()
        else:
            self.tell("the host comes back")
            self.output += self.host.lines
            self.host.close()
            self.join()

    def close(self) -> None:
        self.closing.close()
        for program in (self.host, self.cloud):
            if program is not None:
                program.close()
                self.output += program.lines

    # --- the run ---

    def go(self, seconds: float, users: int) -> None:
        """Ask for that long, then delete everything. Raises Wrong, AssertionError."""
        chance = random.Random(self.seed)
        self.start()
        self.token = run("token", "host", "far", "--data", self.data).stdout.strip()
        self.join()
        operator = Actor(
            self, "operator", chance.getrandbits(32), "admin", "admin", self.cloud.variables["OS_PASSWORD"]
        )
        operator.log_in()
        kind = {"group_type": {"name": "g"}}
        assert operator.ask("POST", "/volume/v3/group_types", "volume 3.70", json=kind).status_code == 202
        actors: list[Actor] = []
        for i in range(2):
            project = operator.make("/identity/v3/projects", "project", {"name": f"p{i}"})
            user = operator.make("/identity/v3/users", "user", {"name": f"u{i}", "password": PASSWORD})
            roles = operator.ask("GET", "/identity/v3/roles?name=member").json()["roles"]
            place = f"/identity/v3/projects/{project['id']}/users/{user['id']}/roles/{roles[0]['id']}"
            assert operator.ask("PUT", place).status_code == 204
            known: dict[str, list[str]] = {"project": [project["id"]], "user": [user["id"]]}
            for n in range(users):
                one = Actor(self, f"u{i}.{n}", chance.getrandbits(32), f"u{i}", f"p{i}", PASSWORD, known)
                one.log_in()
                one.look_around()
                actors.append(one)
        until(lambda: operator.state_of("far") == "up")
        self.before = ledger(self.data, self.database)
        operator.users = actors
        deadline = time.monotonic() + seconds
        threads = [
            threading.Thread(target=actor.work, args=(deadline,), daemon=True)
            for actor in [*actors, operator]
        ]
        for thread in threads:
            thread.start()
        self._break(chance, deadline)
        for thread in threads:
            thread.join(ANSWER * 2)
            if thread.is_alive():
                raise Wrong("a request is not answered")
        self._end(operator, actors)

    def _break(self, chance: random.Random, deadline: float) -> None:
        """Kill processes now and then, and look at the laws."""
        pause = max(min((deadline - time.monotonic()) / 4, 15.0), 1.0)
        while time.monotonic() < deadline and not self.wrong:
            time.sleep(chance.uniform(pause / 2, pause))
            if chance.random() < 0.5:
                self.tell("the control process is killed")
                self.kill()
            else:
                self.kill_host()
            self.check()

    def check(self) -> None:
        """The laws that hold at every moment."""
        with self.opened() as db:
            db.read_now(laws.check)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        db: Any
        if self.database:
            db = PostgresDatabase(self.database, RealChance(), connections=2)
        else:
            db = SqliteDatabase(self.data / "cumulet.db", RealChance())
        try:
            yield db
        finally:
            db.close()

    def _end(self, operator: Actor, actors: list[Actor]) -> None:
        """Everything works again, everything is deleted, and the ledger is as before."""
        if self.host.process.poll() is not None:
            self.kill_host()
        operator.heal()
        end = time.monotonic() + END
        users = [actor for actor in actors if actor.name.endswith(".0")]
        while left := [one for user in users for one in user.clean(operator)]:
            if time.monotonic() > end:
                raise Wrong(
                    "cannot be removed:\n"
                    + "\n".join([*left[:50], *map(str, self.stays.items()), *self._why()])
                )
            time.sleep(0.3)
        await_clean(self.before, self.data, self.database)
        self.check()
        found = run("audit", "--data", self.data)
        if found.returncode != 0:
            raise Wrong(f"the audit found:\n{found.stdout}{found.stderr}")
        if self.cloud.stop() != 0:
            raise Wrong(self.cloud.output)
        if self.wrong:
            raise Wrong("\n".join(self.wrong[:20]))

    def _why(self) -> list[str]:
        with self.opened() as db:
            rows = db.read_now(
                lambda tx: tx.all(
                    "select id, kind, rule, waiting, due from holders where waiting is not null"
                )
            )
            claims = db.read_now(
                lambda tx: tx.all(
                    "select c.*, a.name from claims c join agents a on a.id = c.agent where not c.wanted or c.error is not null"
                )
            )
        return [f"waits: {row}" for row in rows] + [f"claim: {row}" for row in claims]


class Actor:
    """Somebody who asks."""

    def __init__(
        self, fuzz: Fuzz, name: str, seed: int, user: str, project: str, password: str,
        known: dict[str, list[str]] | None = None,
    ) -> None:  # fmt: skip
        self.fuzz = fuzz
        self.name = name
        self.random = random.Random(seed)
        self.user, self.project, self.password = user, project, password
        #: Ids by kind, of everybody with the same project.
        self.known = known if known is not None else {}
        self.http = httpx2.Client(timeout=ANSWER, trust_env=False)
        fuzz.closing.callback(self.http.close)
        self.token = ""
        self.users: list[Actor] = []

    # --- requests ---

    def log_in(self) -> None:
        who = {"name": self.user, "domain": {"id": "default"}, "password": self.password}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": who}},
            "scope": {"project": {"name": self.project, "domain": {"id": "default"}}},
        }
        answer = self.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})
        assert answer.status_code == 201, answer.text
        self.token = answer.headers["x-subject-token"]

    def ask(self, method: str, path: str, version: str = "", **more: Any) -> httpx2.Response:
        """One request; once more if the process was killed under it. Notes what must not be."""
        headers = {"X-Auth-Token": self.token, **more.pop("headers", {})}
        if version:
            headers["OpenStack-API-Version"] = version
        for _ in range(20):
            self.fuzz.up.wait(ANSWER)
            generation = self.fuzz.generation
            try:
                answer = self.http.request(method, self.fuzz.cloud.url + path, headers=headers, **more)
            except (httpx2.HTTPError, OSError) as error:
                if self.fuzz.generation == generation and self.fuzz.up.is_set():
                    self._note(f"{method} {path} {more}: {error!r}")
                    return httpx2.Response(599)
                continue
            self.fuzz.requests += 1
            status = answer.status_code
            self.fuzz.answers[status] = self.fuzz.answers.get(status, 0) + 1
            if status >= 500 and status not in (501, 503):
                self._note(f"{method} {path} {more}: {status} {answer.text[:500]}")
            return answer
        return httpx2.Response(599)

    def delete(self, path: str, version: str = "") -> httpx2.Response:
        """Remove something in the end, and tell why it stays."""
        answer = self.ask("DELETE", path, version)
        if answer.status_code not in (202, 204, 404):
            self.fuzz.stays[path] = f"{answer.status_code} {answer.text[:300]}"
        return answer

    def _note(self, text: str) -> None:
        self.fuzz.tell(f"WRONG {self.name}: {text[:3000]}")
        self.fuzz.wrong.append(f"{self.name}: {text[:3000]}")

    def make(self, path: str, noun: str, body: Any) -> Any:
        answer = self.ask("POST", path, json={noun: body})
        assert answer.status_code == 201, answer.text
        return answer.json()[noun]

    def listed(self, path: str, noun: str, version: str = "") -> list[Any]:
        answer = self.ask("GET", path, version)
        return list(answer.json().get(noun, [])) if answer.status_code == 200 else []

    def state_of(self, agent: str) -> str:
        found = self.ask("GET", "/cumulet/v1/agents").json()["agents"]
        return next((str(one["state"]) for one in found if one["name"] == agent), "none")

    # --- what a user asks at random ---

    def look_around(self) -> None:
        """What there is for everybody."""
        # The project's default security group is made when somebody looks.
        self.listed("/network/v2.0/security-groups", "security_groups")
        self.known["group_type"] = [
            self.listed("/volume/v3/group_types", "group_types", "volume 3.70")[0]["id"]
        ]
        self.known["public"] = [self.listed("/network/v2.0/networks?name=public", "networks")[0]["id"]]
        flavors = self.listed("/compute/v2.1/flavors/detail", "flavors")
        self.known["flavor"] = [one["id"] for one in sorted(flavors, key=lambda one: one["ram"])[:2]]
        self.known["tiny"] = [self.listed("/image/v2/images?name=tiny", "images")[0]["id"]]
        self.known["type"] = [one["id"] for one in self.listed("/volume/v3/types", "volume_types")]
        self.lines = [
            (area, route)
            for area, route in lines()
            if area.name in AREAS
            and key(area, route) not in LEFT_OUT
            and route.rule
            and members_may(route.rule)
            and "removed" not in route.rule
            and (area.name != "identity" or any(part in route.path for part in IDENTITY))
        ]
        self.weights = [self._weight(area, route) for area, route in self.lines]

    @staticmethod
    def _weight(area: Area, route: Route) -> float:
        name = key(area, route)
        if area.name == "identity":
            return 0.3
        if name == "compute POST /v2.1/servers":
            return 20
        if name in MADE:
            return 6 if area.name in ("volume", "network", "image") else 2
        if name == "compute DELETE /v2.1/servers/{server_id}":
            return 20
        if route.method == "DELETE":
            return 6 if route.path.count("{") == 1 else 2
        return 0.2 if route.method == "GET" else 2 if area.name == "compute" else 1

    def work(self, deadline: float) -> None:
        try:
            while time.monotonic() < deadline and not self.fuzz.wrong:
                if self.users:
                    self.operate()
                else:
                    area, route = self.random.choices(self.lines, self.weights)[0]
                    self.step(area, route)
        except Exception as error:
            self._note(f"{error!r}")
            raise

    def pick(self, name: str) -> str:
        """The id of something, or of nothing."""
        kind = KINDS.get(name, name)
        if kind == "image" and self.random.random() < 0.7:
            kind = "tiny"
        known = self.known.get(kind, [])
        if known and self.random.random() < 0.97:
            return self.random.choice(known[-30:])
        return f"{self.random.getrandbits(128):032x}"

    def step(self, area: Area, route: Route) -> None:
        name = key(area, route)
        version = version_of(area, route)
        values = []
        for kind, value in parameters(area, route):
            if (
                kind == "owned"
                and not self.known.get(KINDS.get(value, value))
                and self.random.random() < 0.97
            ):
                return
            values.append(self.pick(value) if kind == "owned" else str(filled(value, self.pick)))
        path = path_of(area, route, [quote(value, safe="") for value in values])
        bodies = [
            *([BODIES[name]] if name in BODIES else []),
            *CREATES.get(name, ()),
            *OPERATORS.get(name, ()),
        ]
        more: dict[str, Any] = {}
        if bodies:
            body = self.random.choice(bodies)
            if isinstance(body, bytes):
                content = qcow2.empty(1 << 30) if self.random.random() < 0.8 else self.random.randbytes(5000)
                more = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
            elif body is not None:
                body = filled(body, self.pick)
                if self.random.random() < 0.1:
                    body = put(body, self.random.choice(list(places(body))), self.random.choice(VALUES))
                ask = with_json(Ask(area, route, path), body)
                more = {"content": ask.body, "headers": dict(ask.headers)}
        elif route.action:
            more = {"json": {route.action: None}}
        answer = self.ask(route.method, path, version, **more)
        self.fuzz.tell(f"{self.name} {route.method} {path} {answer.status_code}")
        self._learn(route, name, answer, values)

    def _learn(self, route: Route, name: str, answer: httpx2.Response, values: list[str]) -> None:
        if name in MADE and answer.status_code in (200, 201, 202) and answer.content:
            kind, noun = MADE[name]
            told = answer.json()
            found = told.get(noun) if noun else told
            if isinstance(found, dict):
                id = found.get("id") or found.get("name")
                if id:
                    self.known.setdefault(kind, []).append(str(id))
                    if kind == "server":
                        # All that there ever were.
                        self.known.setdefault("servers", []).append(str(id))
        if answer.status_code == 401:
            self.log_in()
        if answer.status_code == 404 and route.path.endswith("}") and len(values) == 1:
            for value in values:
                for kind, ids in self.known.items():
                    if value in ids and kind not in (
                        "servers",
                        "project",
                        "user",
                        "flavor",
                        "type",
                        "public",
                        "tiny",
                    ):
                        with contextlib.suppress(ValueError):
                            ids.remove(value)

    # --- what the operator does ---

    def operate(self) -> None:
        roll = self.random.random()
        time.sleep(self.random.uniform(0.0, 0.3))
        if roll < 0.35:
            self._add_fault()
        elif roll < 0.5:
            self.fuzz.tell("faults are lifted")
            self.ask("DELETE", "/cumulet/v1/faults")
        elif roll < 0.6:
            self._force(self.random.choice(["h1", "h2", "h3", "far"]), self.random.random() < 0.4)
        else:
            self._act(self.random.choice(self.users))

    def _add_fault(self) -> None:
        steps = self.ask("GET", "/cumulet/v1/steps").json()["steps"]
        effect = self.random.choice(["fail", "lose", "slow", "hold", "crash"])
        rule = {
            "step": self.random.choice([*steps, "*.ensure", "*.remove", "volume.*", "export.*"]), "effect": effect,
            "moment": self.random.choice(["before", "after"]),
        }  # fmt: skip
        if self.random.random() < 0.4:
            # A crash of a host in a process of its own kills that.
            rule["host"] = self.random.choice(["h1", "h2", "h3", "sim", "network", "store", "far"])
        if effect == "slow":
            rule["seconds"] = self.random.uniform(0.05, 4.0)
        if effect != "hold":
            rule["count"] = self.random.randint(1, 4)
        self.fuzz.faults += 1
        self.fuzz.tell(f"fault: {rule}")
        answer = self.ask("POST", "/cumulet/v1/faults", json=rule)
        if answer.status_code != 201:
            self._note(f"{rule}: {answer.status_code} {answer.text}")

    def _force(self, host: str, down: bool) -> None:
        self.fuzz.faults += 1
        self.fuzz.tell(f"{host} is forced {'down' if down else 'up'}")
        body = {"host": host, "binary": "nova-compute", "forced_down": down}
        self.ask("PUT", "/compute/v2.1/os-services/force-down", "compute 2.11", json=body)

    def _act(self, user: Actor) -> None:
        """What only an operator may do with a user's things."""
        chosen = self.random.choice(
            [
                ("server", {"os-resetState": {"state": self.random.choice(["error", "active"])}}),
                ("server", {"forceDelete": None}),
                ("server", {"migrate": None}),
                ("server", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
                ("server", {"evacuate": {}}),
                ("server", {"shelveOffload": None}),
                ("volume", {"os-reset_status": {"status": self.random.choice(["error", "available"])}}),
                ("volume", {"os-force_delete": None}),
                ("volume", {"os-force_detach": {}}),
                ("snapshot", {"os-reset_status": {"status": "error"}}),
                ("snapshot", {"os-force_delete": None}),
            ]
        )
        kind, body = chosen
        area = "/compute/v2.1/servers" if kind == "server" else f"/volume/v3/{kind}s"
        version = "compute 2.96" if kind == "server" else "volume 3.70"
        id = user.pick(kind)
        answer = self.ask("POST", f"{area}/{id}/action", version, json=body)
        self.fuzz.tell(f"operator {kind} {id} {next(iter(body))} {answer.status_code}")

    def heal(self) -> None:
        """No faults, and every host may work."""
        self.ask("DELETE", "/cumulet/v1/faults")
        for host in ("h1", "h2", "h3", "far"):
            self._force(host, False)

    # --- the end ---

    def clean(self, operator: Actor) -> list[str]:
        """Delete all that the project has; what is still there."""
        left: list[str] = []

        def each(path: str, noun: str, item: str = "", version: str = "", own: bool = True) -> Iterator[Any]:
            for one in self.listed(path, noun, version):
                mine = one.get("project_id", one.get("tenant_id", one.get("owner", self.known["project"][0])))
                if not own or mine == self.known["project"][0]:
                    left.append(
                        f"{noun} {one.get('id', one.get('name'))} {one.get('status', '')} {one.get('task_state', '')}"
                    )
                    yield one

        newest = "compute 2.96"
        for one in each("/compute/v2.1/servers/detail", "servers", version=newest):
            if one.get("locked"):
                self.ask("POST", f"/compute/v2.1/servers/{one['id']}/action", newest, json={"unlock": None})
            self.delete(f"/compute/v2.1/servers/{one['id']}", newest)
        for one in each("/compute/v2.1/os-keypairs", "keypairs"):
            self.delete(f"/compute/v2.1/os-keypairs/{quote(one['keypair']['name'], safe='')}")
        for one in each("/compute/v2.1/os-server-groups", "server_groups"):
            self.delete(f"/compute/v2.1/os-server-groups/{one['id']}")
        self._clean_network(each)
        self._clean_volumes(each, operator)
        images = itertools.chain.from_iterable(
            each(f"/image/v2/images?limit=1000&os_hidden={hidden}", "images") for hidden in ("false", "true")
        )
        for one in images:
            patch = [{"op": "replace", "path": "/protected", "value": False}]
            kind = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
            self.ask("PATCH", f"/image/v2/images/{one['id']}", json=patch, headers=kind)
            self.delete(f"/image/v2/images/{one['id']}")
        user = self.known["user"][0]
        for path, noun in (
            (f"/identity/v3/users/{user}/application_credentials", "application_credentials"),
            (f"/identity/v3/users/{user}/access_rules", "access_rules"), ("/identity/v3/credentials", "credentials"),
            (f"/identity/v3/OS-TRUST/trusts?trustor_user_id={user}", "trusts"),
        ):  # fmt: skip
            for one in each(path, noun, own=False):
                self.delete(f"{path.partition('?')[0]}/{one['id']}")
        return left

    def _clean_network(self, each: Any) -> None:
        root = "/network/v2.0"
        for one in each(f"{root}/trunks", "trunks"):
            self.delete(f"{root}/trunks/{one['id']}")
        for one in each(f"{root}/rbac-policies", "rbac_policies"):
            self.delete(f"{root}/rbac-policies/{one['id']}")
        for one in each(f"{root}/floatingips", "floatingips"):
            self.delete(f"{root}/floatingips/{one['id']}")
        for one in each(f"{root}/routers", "routers"):
            self.ask("PUT", f"{root}/routers/{one['id']}", json={"router": {"routes": []}})
            for port in self.listed(f"{root}/ports?device_id={one['id']}", "ports"):
                self.ask(
                    "PUT", f"{root}/routers/{one['id']}/remove_router_interface", json={"port_id": port["id"]}
                )
            self.delete(f"{root}/routers/{one['id']}")
        for one in each(f"{root}/ports", "ports"):
            if one["device_owner"].startswith("network:"):
                # Called a router's interface by its user.
                self.ask(
                    "PUT", f"{root}/ports/{one['id']}", json={"port": {"device_owner": "", "device_id": ""}}
                )
            if not one["device_owner"].startswith("compute:"):
                self.delete(f"{root}/ports/{one['id']}")
        for many in ("subnets", "networks", "subnetpools"):
            for one in each(f"{root}/{many}", many):
                self.delete(f"{root}/{many}/{one['id']}")
        groups = self.listed(f"{root}/security-groups", "security_groups")
        if [one for one in groups if one["name"] != "default"]:
            for one in each(f"{root}/security-groups", "security_groups"):
                if one["name"] != "default":
                    self.delete(f"{root}/security-groups/{one['id']}")

    def _clean_volumes(self, each: Any, operator: Actor) -> None:
        root, version = "/volume/v3", "volume 3.70"
        for one in each(f"{root}/volume-transfers/detail", "transfers", version=version):
            self.delete(f"{root}/volume-transfers/{one['id']}", version)
        for one in each(f"{root}/backups/detail", "backups", version=version, own=False):
            if one["status"] in ("available", "error"):
                self.delete(f"{root}/backups/{one['id']}", version)
        for one in each(f"{root}/attachments/detail", "attachments", version=version):
            self.delete(f"{root}/attachments/{one['id']}", version)
        for one in each(f"{root}/group_snapshots/detail", "group_snapshots", version=version):
            if one["status"] not in ("deleting", "creating"):
                self.delete(f"{root}/group_snapshots/{one['id']}", version)
        for one in each(f"{root}/snapshots/detail", "snapshots", version=version):
            self.delete(f"{root}/snapshots/{one['id']}", version)
        for one in each(f"{root}/groups/detail", "groups", version=version):
            body = {"delete": {"delete-volumes": True}}
            self.ask("POST", f"{root}/groups/{one['id']}/action", version, json=body)
        for one in each(f"{root}/volumes/detail", "volumes", version=version):
            answer = self.delete(f"{root}/volumes/{one['id']}", version)
            at_servers = [at for at in one["attachments"] if at["server_id"] in self.known.get("servers", ())]
            if answer.status_code == 400 and not at_servers and one["status"] not in ("deleting", "creating"):
                # What a client of its own left half done, or somebody reset, an operator puts right.
                reset = {"os-reset_status": {"status": "available", "attach_status": "detached"}}
                operator.ask("POST", f"{root}/volumes/{one['id']}/action", version, json=reset)


def fuzz(
    seed: int,
    seconds: float,
    *,
    users: int = 2,
    database: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> Fuzz:
    """One run; raises Wrong or AssertionError with what was wrong."""
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        made = Fuzz(seed, Path(name), database, tell)
        try:
            made.go(seconds, users)
        finally:
            made.close()
        check_output(made.output)
        return made


def check_output(lines: list[str]) -> None:
    """Raise Wrong for a trace that a process printed, with the last line of each and the first one whole."""
    begins = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
    if begins:
        ends = Counter(line for line in lines if _ENDS.match(line))
        told = "".join(f"{count} x {line}" for line, count in ends.most_common(20))
        raise Wrong(
            f"{len(begins)} traces:\n{told}\n{''.join(lines[max(begins[0] - 5, 0) : begins[0] + 100])}"
        )


#: How a trace ends.
_ENDS = re.compile(r"[\w.]+(Error|Exception|Held|Duplicate|Broken|Rejected|Unreachable)\b")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--users", type=int, default=2, help="Threads of each of the two users.")
    options.add_argument("--database", default="", help="Instead of SQLite.")
    options.add_argument("--verbose", action="store_true")
    given = options.parse_args()
    seed = given.seed if given.seed is not None else secrets.randbelow(10**6)
    print(f"seed {seed}", flush=True)
    try:
        made = fuzz(
            seed, given.seconds, users=given.users, database=given.database,
            tell=(lambda text: print(text, flush=True)) if given.verbose else lambda _: None,
        )  # fmt: skip
    except AssertionError as error:
        print(f"seed {seed} failed: {error}")
        sys.exit(1)
    print(
        f"{made.requests} requests, {made.faults} faults, {made.kills} kills, nothing left; "
        f"answers: {dict(sorted(made.answers.items()))}"
    )


if __name__ == "__main__":
    main()
