"""Hosts as processes of their own, which dial in over loopback."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path

from cumulet.exits import BAD_SETTINGS, IN_USE, REFUSED
from tests.process.cumulet import Cloud, Program, cloud, run, started, until


@contextlib.contextmanager
def joined(up: Cloud, state: Path, name: str, token: str = "") -> Iterator[Program]:
    """A host that has joined while the block runs."""
    token = token or run("token", "host", name, "--data", up.directory).stdout.strip()
    with started(
        Program("host", "join", up.url, "--name", name, "--state", state, env={"CUMULET_HOST_TOKEN": token})
    ) as host:
        host.token = token
        until(lambda: state_of(up, name) == "up")
        yield host


def state_of(up: Cloud, name: str) -> str:
    agents = up.get("/cumulet/v1/agents")["agents"]
    return next((str(agent["state"]) for agent in agents if agent["name"] == name), "none")


def test_a_host_joins_runs_a_server_and_is_killed(directory: Path) -> None:
    with cloud(directory / "data", "--hypervisor", "none") as up:
        with joined(up, directory / "far", "far") as host:
            assert "joins" in host.await_line("joins")
            token = host.token
            server = up.boot("there")
            shown = up.await_server(server, "ACTIVE")
            assert shown is not None
            assert shown["OS-EXT-SRV-ATTR:host"] == "far"
            guests = list((directory / "far/guest").iterdir())
            assert len(guests) == 1
            host.kill()
        up.request("DELETE", f"/compute/v2.1/servers/{server}")
        assert up.server(server) is not None
        with joined(up, directory / "far", "far", token) as host:
            up.await_server(server, None)
            assert list((directory / "far/guest").iterdir()) == []
            assert host.stop() == 0
            assert "Traceback" not in host.output


def test_a_fault_rule_kills_the_process_of_a_host(directory: Path) -> None:
    with cloud(directory / "data", "--hypervisor", "none") as up:
        with joined(up, directory / "far", "far") as host:
            rule = {"step": "guest.ensure", "effect": "crash", "host": "far", "moment": "after", "count": 1}
            up.post("/cumulet/v1/faults", rule)
            server = up.boot("survivor")
            assert host.process.wait(30) == -signal.SIGKILL
        with joined(up, directory / "far", "far", host.token):
            # What it had made before it was killed is found, and adopted.
            up.await_server(server, "ACTIVE")
            assert len(list((directory / "far/guest").iterdir())) == 1
            assert up.get("/cumulet/v1/orphans")["orphans"] == []


def test_a_host_outlives_a_restart_of_the_cloud(directory: Path) -> None:
    with cloud(directory / "data", "--hypervisor", "none") as up:
        port = up.url.rsplit(":", 1)[1]
        with joined(up, directory / "far", "far") as host:
            server = up.boot("kept")
            up.await_server(server, "ACTIVE")
            up.kill()
            with started(Cloud(directory / "data", "--hypervisor", "none", "--port", port)) as again:
                again.ready()
                again.request("DELETE", f"/compute/v2.1/servers/{server}")
                again.await_server(server, None)
                assert host.process.poll() is None


def test_a_wrong_token_is_refused_in_one_line(directory: Path) -> None:
    with cloud(directory / "data") as up:
        token = run("token", "host", "far", "--data", up.directory).stdout.strip()
        agent, _, _ = token.partition(".")
        words = ("host", "join", up.url, "--name", "far", "--state", directory / "far", "--token")
        wrong = run(*words, f"{agent}.wrong")
        assert wrong.returncode == REFUSED
        assert wrong.stderr.startswith("cumulet: ")
        assert "cumulet token host" in wrong.stderr
        assert wrong.stderr.count("\n") == 1
        assert run(*words, "nonsense").returncode == BAD_SETTINGS
        other = run("host", "join", up.url, "--name", "near", "--state", directory / "near", "--token", token)
        assert other.returncode == REFUSED
        assert "far" in other.stderr


def test_a_state_directory_serves_one_host_only(directory: Path) -> None:
    with cloud(directory / "data") as up, joined(up, directory / "far", "far") as host:
        second = run(
            "host", "join", up.url, "--name", "far", "--state", directory / "far", "--token", host.token
        )
        assert second.returncode == IN_USE
        assert "in use" in second.stderr
        stranger = run(
            "host", "join", up.url, "--name", "far", "--state", directory / "else", "--token", host.token
        )
        assert stranger.returncode == REFUSED
        assert "state directory" in stranger.stderr


def test_tokens_and_lists_speak_json(directory: Path) -> None:
    with cloud(directory / "data") as up:
        made = json.loads(run("token", "host", "far", "--data", up.directory, "--json").stdout)
        assert made["token"].startswith(made["agent"] + ".")
        assert json.loads(run("token", "rotate", "--data", up.directory, "--json").stdout) == {"keys": 2}
        assert "3 are kept" in run("token", "rotate", "--data", up.directory).stdout
        # What the key before encrypted is still good.
        assert up.get("/compute/v2.1/servers") == {"servers": []}
        agents = json.loads(run("host", "list", "--data", up.directory, "--json").stdout)
        assert {agent["name"] for agent in agents} >= {"h1", "far", "store", "network"}
        assert "h1" in run("host", "list", "--data", up.directory).stdout
        said = json.loads(run("host", "destroyed", "far", "--data", up.directory, "--json").stdout)
        assert said["closed"] == 0
