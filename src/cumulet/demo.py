"""``cumulet demo``: the main job, on a real cloud, over its HTTP API alone.

It starts a throw-away cloud as a process of its own, builds servers that go wrong in every way that the rule
of delete knows, deletes them, and shows that nothing is left. Nothing here looks into the cloud's process,
its database or its directories.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from cumulet.errors import Refused
from cumulet.exits import FAILED, NOT_CLEAN
from cumulet.tables import table

#: Seconds in which what the demo waits for must come true.
TIME = 30.0
SETTINGS = """
[hosts]
count = 3
[reconcile]
patience = 2.0
build_attempts = 1
"""
COMPUTE, NETWORK, VOLUME, IMAGE, PLACEMENT, OURS = (
    "/compute/v2.1", "/network/v2.0", "/volume/v3", "/image/v2", "/placement", "/cumulet/v1",
)  # fmt: skip
#: What ``Demo.look`` has that is a sum, and not a list of things.
_SUMS = ("allocations", "quota")


class Check(msgspec.Struct):
    """One line of the table at the end."""

    path: str
    check: str
    held: bool


class Screen:
    """Says what is going on: with a moving line on a terminal, in plain lines elsewhere."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.live = out.isatty()
        self.started = time.monotonic()

    def chapter(self, title: str) -> None:
        self._line(f"\n{self._bold(title)}")

    def step(self, text: str) -> None:
        """Something is being done; on a terminal the line is replaced by what came of it."""
        if self.live:
            self.out.write(f"\r\x1b[K  … {text}")
            self.out.flush()

    def done(self, text: str) -> None:
        self._line(f"  {self._mark(True)} {text}")

    def check(self, held: bool, text: str) -> None:
        self._line(f"  {self._mark(held)} {text}")

    def show(self, text: str) -> None:
        for line in text.splitlines():
            self._line(f"      {line}")

    def _line(self, text: str) -> None:
        self.out.write(("\r\x1b[K" if self.live else "") + text + "\n")
        self.out.flush()

    def _mark(self, held: bool) -> str:
        mark = "ok" if held else "NO"
        if not self.live:
            return mark
        return f"\x1b[32m{mark}\x1b[0m" if held else f"\x1b[31m{mark}\x1b[0m"

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.live else text


class Cloud:
    """A user (demo) and an administrator of the throw-away cloud."""

    def __init__(self, http: httpx2.Client, passwords: Mapping[str, str]) -> None:
        self.http = http
        self.tokens = {name: self._login(name, password) for name, password in passwords.items()}

    def _login(self, name: str, password: str) -> str:
        user = {"name": name, "domain": {"id": "default"}, "password": password}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": name, "domain": {"id": "default"}}},
        }
        answer = self.http.post("/identity/v3/auth/tokens", json={"auth": auth})
        answer.raise_for_status()
        return str(answer.headers["x-subject-token"])

    def call(self, method: str, path: str, body: Any = None, *, as_: str = "demo") -> httpx2.Response:
        """A request; only an answer that is an error of the cloud's own ends the demo."""
        headers = {
            "X-Auth-Token": self.tokens[as_],
            "OpenStack-API-Version": "compute 2.96, volume 3.70, placement 1.39",
        }
        answer = self.http.request(method, path, json=body, headers=headers)
        if answer.status_code >= 500:
            raise Refused(f"{method} {path} answered {answer.status_code}: {answer.text}", FAILED)
        return answer

    def get(self, path: str, *, as_: str = "demo") -> Any:
        answer = self.call("GET", path, as_=as_)
        if answer.status_code != 200:
            raise Refused(f"GET {path} answered {answer.status_code}: {answer.text}", FAILED)
        return answer.json()

    def make(self, path: str, body: Any, *, as_: str = "demo") -> Any:
        answer = self.call("POST", path, body, as_=as_)
        if answer.status_code not in (200, 201, 202):
            raise Refused(f"POST {path} answered {answer.status_code}: {answer.text}", FAILED)
        return answer.json() if answer.content else None


def run(out: Any = sys.stdout) -> None:
    """Run the whole demo. Raises Refused with NOT_CLEAN unless every check held."""
    screen = Screen(out)
    screen.chapter("A throw-away cloud")
    with throw_away(screen) as cloud:
        demo = Demo(cloud, screen)
        demo.prepare()
        for path in PATHS:
            path(demo)
        demo.compare("all of them", "the whole cloud is as before the first server", everything=True)
        checks = demo.checks
    screen.chapter("What was checked")
    rows = [[check.path, check.check, "yes" if check.held else "NO"] for check in checks]
    screen.show(table(["path of delete", "promise", "held"], rows))
    failed = sum(not check.held for check in checks)
    seconds = time.monotonic() - screen.started
    if failed:
        raise Refused(f"{failed} of {len(checks)} checks did not hold ({seconds:.0f} s).", NOT_CLEAN)
    screen.chapter(f"All {len(checks)} checks held, in {seconds:.0f} s.")


@contextlib.contextmanager
def throw_away(screen: Screen) -> Iterator[Cloud]:
    """A cloud in a directory of its own, as a process of its own, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="cumulet-demo-") as name:
        directory = Path(name)
        (directory / "settings.toml").write_text(SETTINGS)
        words = [
            sys.executable, "-m", "cumulet", "up", "--data", str(directory / "data"), "--port", "0",
            "--config", str(directory / "settings.toml"), "--write-env", str(directory / "env"),
        ]  # fmt: skip
        log = (directory / "log").open("wb")
        with log, subprocess.Popen(words, stdout=log, stderr=log) as process:
            try:
                screen.step("starting")
                begun = time.monotonic()
                _wait_for(lambda: (directory / "env").exists() or process.poll() is not None)
                if process.poll() is not None:
                    raise Refused(f"The cloud did not start: {(directory / 'log').read_text()}", FAILED)
                url = (
                    _environment(directory / "env")["OS_AUTH_URL"]
                    .removesuffix("/identity/v3")
                    .removesuffix("/identity")
                )
                screen.done(f"answers at {url} after {time.monotonic() - begun:.1f} s")
                passwords = {}
                for user in ("admin", "demo"):
                    shown = subprocess.run(
                        [sys.executable, "-m", "cumulet", "env", "--data", str(directory / "data"), "--user", user],
                        capture_output=True, text=True, check=True,
                    )  # fmt: skip
                    passwords[user] = _exports(shown.stdout)["OS_PASSWORD"]
                with httpx2.Client(base_url=url, timeout=30) as http:
                    yield Cloud(http, passwords)
            finally:
                process.terminate()
                process.wait(30)


def _environment(file: Path) -> dict[str, str]:
    return _exports(file.read_text())


def _exports(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        found[name] = value.strip("'\"")
    return found


def _wait_for(check: Callable[[], Any], what: str = "the cloud") -> Any:
    """Ask until it is true. Raises Refused after TIME."""
    until = time.monotonic() + TIME
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise Refused(f"Waited {TIME:.0f} s in vain for {what}.", FAILED)


class Demo:
    """The actors, and what was checked so far."""

    def __init__(self, cloud: Cloud, screen: Screen) -> None:
        self.cloud = cloud
        self.screen = screen
        self.checks: list[Check] = []
        self.before: dict[str, Any] = {}
        self.flavor = self.image = self.network = ""
        self.port = self.volume = ""

    # --- actors ---

    def prepare(self) -> None:
        """What the user brings: a port and a volume. Then everything is looked at for the first time."""
        cloud = self.cloud
        self.flavor = next(
            f["id"] for f in cloud.get(f"{COMPUTE}/flavors")["flavors"] if f["name"] == "m1.tiny"
        )
        self.image = cloud.get(f"{IMAGE}/images")["images"][0]["id"]
        self.network = next(
            n["id"] for n in cloud.get(f"{NETWORK}/networks")["networks"] if n["name"] == "private"
        )
        self.port = cloud.make(f"{NETWORK}/ports", {"port": {"network_id": self.network, "name": "my-port"}})[
            "port"
        ]["id"]
        self.volume = cloud.make(f"{VOLUME}/volumes", {"volume": {"size": 1, "name": "my-volume"}})["volume"][
            "id"
        ]
        self.wait(lambda: self.volume_status() == "available", "the volume")
        self.screen.done("a user's own port (my-port) and volume (my-volume)")
        self.wait(self._at_rest, "the cloud to come to rest")
        self.before = self.look()

    def boot(self, name: str, status: str = "ACTIVE") -> str:
        """A server with the user's port and volume, a port and a volume of its own, and a config drive."""
        body = {
            "server": {
                "name": name,
                "flavorRef": self.flavor,
                "imageRef": self.image,
                "config_drive": True,
                "networks": [{"port": self.port}, {"uuid": self.network}],
                "block_device_mapping_v2": [
                    {"uuid": self.image, "source_type": "image", "destination_type": "local", "boot_index": 0},
                    {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
                    {
                        "source_type": "blank", "destination_type": "volume", "volume_size": 1,
                        "delete_on_termination": True,
                    },
                ],
            }
        }  # fmt: skip
        id = str(self.cloud.make(f"{COMPUTE}/servers", body)["server"]["id"])
        if status:
            self.wait(lambda: self.server(id)["status"] == status, f"{name} to become {status}")
        return id

    def server(self, id: str) -> dict[str, Any]:
        """The server as an administrator sees it; {"status": "404"} when it is gone."""
        answer = self.cloud.call("GET", f"{COMPUTE}/servers/{id}", as_="admin")
        if answer.status_code == 404:
            return {"status": "404"}
        found: dict[str, Any] = answer.json()["server"]
        return found

    def volume_status(self) -> str:
        return str(self.cloud.get(f"{VOLUME}/volumes/{self.volume}")["volume"]["status"])

    def delete(self, id: str, path: str, *, at_once: bool = False) -> None:
        """DELETE, and the 404."""
        answer = self.cloud.call("DELETE", f"{COMPUTE}/servers/{id}")
        self.check(path, "DELETE answers 204", answer.status_code == 204)
        if at_once:
            self.check(
                path, "the server is gone when the answer is there", self.server(id)["status"] == "404"
            )
        else:
            begun = time.monotonic()
            self.wait(lambda: self.server(id)["status"] == "404", "the server to be gone")
            self.check(path, f"the server is gone after {time.monotonic() - begun:.2f} s", True)

    def fault(self, step: str, effect: str = "fail", **more: Any) -> None:
        self.cloud.make(f"{OURS}/faults", {"step": step, "effect": effect, **more}, as_="admin")

    def no_faults(self) -> None:
        self.cloud.call("DELETE", f"{OURS}/faults", as_="admin")

    # --- looking ---

    def look(self) -> dict[str, Any]:
        """Everything that the APIs show, by id, without what moves by itself."""
        cloud = self.cloud
        moving = {"updated_at", "revision_number", "updated"}

        def by_id(rows: list[dict[str, Any]]) -> dict[str, Any]:
            return {row["id"]: {k: v for k, v in row.items() if k not in moving} for row in rows}

        providers = cloud.get(f"{PLACEMENT}/resource_providers", as_="admin")["resource_providers"]
        return {
            "servers": by_id(cloud.get(f"{COMPUTE}/servers?all_tenants=1", as_="admin")["servers"]),
            "ports": by_id(cloud.get(f"{NETWORK}/ports", as_="admin")["ports"]),
            "volumes": by_id(cloud.get(f"{VOLUME}/volumes/detail?all_tenants=1", as_="admin")["volumes"]),
            "attachments": by_id(cloud.get(f"{VOLUME}/attachments?all_tenants=1", as_="admin")["attachments"]),
            "snapshots": by_id(cloud.get(f"{VOLUME}/snapshots?all_tenants=1", as_="admin")["snapshots"]),
            "images": by_id(cloud.get(f"{IMAGE}/images", as_="admin")["images"]),
            "allocations": {
                p["uuid"]: cloud.get(f"{PLACEMENT}/resource_providers/{p['uuid']}/usages", as_="admin")["usages"]
                for p in providers
            },
            "quota": {
                k: v for k, v in cloud.get(f"{COMPUTE}/limits")["limits"]["absolute"].items() if k.endswith("Used")
            },
            "claims": {
                c["id"]: (c["kind"], c["agent"], c["state"]) for c in cloud.get(f"{OURS}/claims", as_="admin")["claims"]
            },
            "debts": cloud.get(f"{OURS}/debts", as_="admin")["debts"],
            "orphans": cloud.get(f"{OURS}/orphans", as_="admin")["orphans"],
        }  # fmt: skip

    def _at_rest(self) -> bool:
        claims = self.cloud.get(f"{OURS}/claims", as_="admin")["claims"]
        return all(claim["state"] == "present" for claim in claims)

    def compare(self, path: str, promise: str, *, everything: bool = False) -> None:
        """Everything is as before, thing by thing."""
        self.wait(self._at_rest, "the cloud to come to rest")
        after = self.look()
        same = {name: after[name] == self.before[name] for name in self.before}
        alike = [name if name in _SUMS else f"{len(after[name])} {name}" for name, ok in same.items() if ok]
        self.screen.show(f"as before: {', '.join(alike)}")
        if not everything:
            port = self.cloud.get(f"{NETWORK}/ports/{self.port}")["port"]
            self.check(path, "the user's port is free again", not port["device_id"])
            self.check(path, "the user's volume is available again", self.volume_status() == "available")
        self.check(path, promise, all(same.values()))
        for name in (name for name, ok in same.items() if not ok):
            self.screen.show(f"DIFFERENT: {name}: before {self.before[name]}, after {after[name]}")

    def claims(self, server: str) -> list[dict[str, Any]]:
        """What a server holds; nothing when nobody knows it any more."""
        answer = self.cloud.call("GET", f"{OURS}/claims?server={server}", as_="admin")
        if answer.status_code == 404:
            return []
        found: list[dict[str, Any]] = answer.json()["claims"]
        return found

    def show_claims(self, server: str) -> None:
        rows = [
            [claim["kind"], claim["agent"], claim["state"], claim["error"] or claim["waiting"] or ""]
            for claim in self.claims(server)
            if claim["kind"] not in ("lport", "volume")
        ]
        self.screen.show(table(["it holds a", "on", "state", "why"], rows))

    # --- saying ---

    def check(self, path: str, promise: str, held: bool) -> None:
        self.checks.append(Check(path, promise, held))
        self.screen.check(held, promise)

    def wait(self, check: Callable[[], Any], what: str) -> None:
        self.screen.step(f"waiting for {what}")
        _wait_for(check, what)


# --- the paths of delete ---


def failed_build(demo: Demo) -> None:
    """The bug that all this began with: Launchpad 1404867 and 1408527."""
    path = "ERROR without a host, build failed"
    demo.screen.chapter("A build that fails on its host, after volumes are connected and ports are bound")
    demo.fault("guest.ensure", server="web-1", message="the hypervisor refuses: no such machine type")
    # The clean-up of the failed build fails as well: what Nova left behind in this moment was lost for good.
    demo.fault("*.remove", server="web-1", message="device is busy")
    id = demo.boot("web-1", "ERROR")
    server = demo.server(id)
    demo.check(path, "it is in ERROR, and on no host", server["OS-EXT-SRV-ATTR:host"] is None)
    demo.screen.show(f"fault: {server['fault']['message']}")
    demo.show_claims(id)
    demo.check(path, "what it still holds is on record", len(demo.claims(id)) > 0)
    answer = demo.cloud.call("DELETE", f"{COMPUTE}/servers/{id}")
    demo.check(path, "DELETE answers 204", answer.status_code == 204)
    demo.no_faults()
    demo.wait(lambda: demo.server(id)["status"] == "404", "the server to be gone")
    demo.check(path, "the server is gone once the host lets go", True)
    demo.compare(path, "nothing is left")
    demo.check(path, "the ledger has no claim of it", demo.claims(id) == [])


def never_scheduled(demo: Demo) -> None:
    path = "no host, never scheduled"
    demo.screen.chapter("Delete while it boots: no host was chosen yet")
    demo.fault("schedule", "hold")
    id = demo.boot("web-2", "")
    demo.check(path, "it builds, and has no host", demo.server(id)["OS-EXT-SRV-ATTR:host"] is None)
    demo.delete(id, path, at_once=True)
    demo.no_faults()
    demo.compare(path, "nothing is left")


def shelved(demo: Demo) -> None:
    path = "SHELVED_OFFLOADED, no host"
    demo.screen.chapter("Delete when shelved and offloaded")
    id = demo.boot("web-3")
    demo.cloud.make(f"{COMPUTE}/servers/{id}/action", {"shelve": None})
    demo.wait(lambda: demo.server(id)["status"] == "SHELVED_OFFLOADED", "web-3 to be offloaded")
    images = demo.cloud.get(f"{IMAGE}/images")["images"]
    demo.check(path, "its disk is an image", any(image["name"] == "web-3-shelved" for image in images))
    demo.check(path, "it is on no host", demo.server(id)["OS-EXT-SRV-ATTR:host"] is None)
    demo.delete(id, path)
    demo.compare(path, "nothing is left, the image neither")


def host_down(demo: Demo) -> None:
    path = "host down"
    demo.screen.chapter("Delete while its host is down")
    id = demo.boot("web-4")
    host = demo.server(id)["OS-EXT-SRV-ATTR:host"]
    services = demo.cloud.get(f"{COMPUTE}/os-services?host={host}", as_="admin")["services"]
    service = f"{COMPUTE}/os-services/{services[0]['id']}"
    demo.fault("*", "hold", host=host)
    demo.cloud.call("PUT", service, {"forced_down": True}, as_="admin")
    demo.delete(id, path)
    port = demo.cloud.get(f"{NETWORK}/ports/{demo.port}")["port"]
    demo.check(path, "the user's port is free at once", not port["device_id"])
    debts = demo.cloud.get(f"{OURS}/debts", as_="admin")["debts"]
    demo.check(path, f"the operator sees what {host} owes ({len(debts)} things)", len(debts) > 0)
    demo.no_faults()
    demo.cloud.call("PUT", service, {"forced_down": False}, as_="admin")
    demo.compare(path, "nothing is left once the host is back")


def back_end_away(demo: Demo) -> None:
    path = "volume back end away"
    demo.screen.chapter("Delete while the volume back end is away")
    id = demo.boot("web-5")
    for step in ("volume.*", "export.*"):
        demo.fault(step, message="connection refused")
    demo.delete(id, path)
    demo.check(path, "the user's volume says that it is detaching", demo.volume_status() == "detaching")
    demo.no_faults()
    demo.wait(lambda: demo.volume_status() == "available", "the volume to be available")
    demo.compare(path, "nothing is left once the back end is back")


def healthy(demo: Demo) -> None:
    path = "healthy"
    demo.screen.chapter("Delete of a healthy server")
    id = demo.boot("web-6")
    demo.delete(id, path)
    demo.compare(path, "nothing is left")


PATHS: tuple[Callable[[Demo], None], ...] = (
    failed_build,
    never_scheduled,
    shelved,
    host_down,
    back_end_away,
    healthy,
)
