"""``cumulet audit`` over a cloud in whose database and directories somebody worked behind its back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cumulet.exits import NOT_CLEAN
from tests.process.cumulet import Cloud, cloud, run, until


def audit(up: Cloud, *words: str) -> tuple[int, dict[str, Any]]:
    found = run("audit", "--data", up.directory, "--json", *words)
    return found.returncode, json.loads(found.stdout)


def behind(up: Cloud, sql: str, params: Mapping[str, Any]) -> int:
    """As sqlite3's shell does it: nothing is checked, and nobody is told."""
    connection = sqlite3.connect(up.directory / "cumulet.db", isolation_level=None)
    try:
        return connection.execute(sql, params).rowcount
    finally:
        connection.close()


def test_it_names_what_is_wrong_and_puts_right_what_is_proven(directory: Path) -> None:
    with cloud(directory / "data", "--hosts", "1") as up:
        assert NOT_CLEAN == 3
        network = up.get("/network/v2.0/networks?name=private")["networks"][0]["id"]
        server = up.boot("s", networks=[{"uuid": network}])
        up.await_server(server, "ACTIVE")
        code, found = audit(up)
        assert (code, found["findings"]) == (0, [])
        text = run("audit", "--data", up.directory)
        assert (text.returncode, text.stdout.splitlines()[0][:7]) == (0, "Counts:")
        guest = next((up.directory / "agents" / "host-h1" / "guest").iterdir())
        guest.unlink()
        assert behind(up, "delete from allocations where consumer_id = :id", {"id": server})
        code, found = audit(up)
        assert code == NOT_CLEAN
        told = {(one["kind"], one["id"]): one for one in found["findings"]}
        assert told.keys() == {("drift", guest.name), ("allocation", server)}
        text = run("audit", "--data", up.directory)
        assert text.returncode == NOT_CLEAN
        assert f"the guest of {server} is not there any more" in text.stdout
        assert text.stderr == "cumulet: The audit found: 1 drift, 1 allocation.\n"
        code, found = audit(up, "--fix")
        assert (code, {one["fixed"] for one in found["findings"]}) == (0, {True})
        assert guest.exists()
        assert audit(up)[1]["findings"] == []
        # What is not proven is told again and again, and stays.
        assert behind(up, "delete from interfaces where server_id = :id", {"id": server})
        for words in ((), ("--fix",), ()):
            code, found = audit(up, *words)
            assert code == NOT_CLEAN
            assert "port" in {one["kind"] for one in found["findings"]}
        up.request("DELETE", f"/compute/v2.1/servers/{server}")
        until(lambda: up.server(server) is None)
