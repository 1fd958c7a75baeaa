"""A backup of a running cloud, and what a restored one may do before somebody has looked."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

from cumulet.exits import FAILED, IN_USE, NOT_CLEAN
from tests.process.cumulet import cloud, run, until


def test_a_restored_cloud_removes_nothing_before_its_audit_was_seen(directory: Path) -> None:
    data, file = directory / "data", directory / "cloud.backup"
    with cloud(data) as up:
        old = up.boot("old")
        up.await_server(old, "ACTIVE")
        made = json.loads(run("backup", file, "--data", data, "--json").stdout)
        assert made["bytes"] == file.stat().st_size
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # After the backup: one server more, and one less.
        new = up.boot("new")
        up.await_server(new, "ACTIVE")
        up.request("DELETE", f"/compute/v2.1/servers/{old}")
        up.await_server(old, None)
        in_use = run("restore", file, "--data", data, "--force")
        assert in_use.returncode == IN_USE
        assert up.stop() == 0
    guests = sorted((data / "agents").glob("host-*/guest/*"))
    assert len(guests) == 1
    there = run("restore", file, "--data", data)
    assert there.returncode == IN_USE
    assert "--force" in there.stderr
    assert "cumulet audit" in run("restore", file, "--data", data, "--force").stdout
    assert (data / "cumulet.db.before-restore").exists()
    with cloud(data) as up:
        up.await_line("REPORT-ONLY")
        status = json.loads(run("status", "--data", data, "--json").stdout)
        assert status["health"]["status"] == "report-only"
        assert up.server(new) is None
        assert up.server(old) is not None
        # The guest of the new server is unknown to the old ledger, the disk of the old one is lost: both are told.
        until(lambda: up.get("/cumulet/v1/orphans")["orphans"])
        until(lambda: [c for c in up.get("/cumulet/v1/claims")["claims"] if c["state"] == "lost"])
        audit = run("audit", "--data", data, "--json")
        assert audit.returncode == NOT_CLEAN
        found = json.loads(audit.stdout)
        kinds = {(one["kind"], one["facts"].get("kind")) for one in found["findings"]}
        assert kinds >= {("lost", "disk"), ("missing", "guest")}
        assert guests[0].name in {one["id"] for one in found["findings"] if one["kind"] == "orphan"}
        assert "REPORT-ONLY" in run("audit", "--data", data).stdout
        # What is deleted meanwhile waits too.
        assert up.request("DELETE", f"/compute/v2.1/servers/{old}").status_code == 204
        assert up.server(old) is not None
        assert up.stop() == 0
    assert guests[0].exists()
    with cloud(data) as up:
        assert up.server(old) is not None
        run("audit", "--data", data, "--accept")
        up.await_server(old, None)
        # What no claim names is told of, and never removed by itself.
        assert guests[0].exists()


def test_a_backup_of_a_stopped_cloud_restores_elsewhere(directory: Path) -> None:
    data, file, other = directory / "data", directory / "cloud.backup", directory / "other"
    with cloud(data) as up:
        up.post("/compute/v2.1/flavors", {"flavor": {"name": "mine", "ram": 64, "vcpus": 1, "disk": 1}})
        password = up.variables["OS_PASSWORD"]
        up.kill()
    assert run("backup", file, "--data", data).returncode == 0
    shutil.rmtree(data)
    assert run("restore", file, "--data", other).returncode == 0
    with cloud(other) as up:
        assert up.variables["OS_PASSWORD"] == password
        assert "mine" in {flavor["name"] for flavor in up.get("/compute/v2.1/flavors")["flavors"]}
        until(lambda: {agent["state"] for agent in up.get("/cumulet/v1/agents")["agents"]} == {"up"})
        assert run("audit", "--data", other, "--accept").returncode in (0, NOT_CLEAN)
        assert up.http.get("/healthz").json()["status"] == "ok"


def test_what_is_no_backup_is_refused_and_changes_nothing(directory: Path) -> None:
    file = directory / "file"
    for content in (b"", b"nothing of ours", b"\0" * 10240):
        file.write_bytes(content)
        result = run("restore", file, "--data", directory / "data")
        assert result.returncode == FAILED
        assert "not a backup" in result.stderr
        assert result.stderr.count("\n") == 1
        assert not (directory / "data/cumulet.db").exists()
    assert run("backup", file, "--data", directory / "none").returncode == FAILED
