"""What a process cannot cope with ends in one clear line with what to do, an exit code of its own, and nothing lost."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cumulet.exits import (
    BAD_SETTINGS,
    DATABASE,
    FAILED,
    IN_USE,
    NOT_RUNNING,
    NOT_WRITABLE,
    PORT,
    REFUSED,
    SCHEMA,
)
from tests.process.cumulet import Cloud, cloud, environment, run, started, until
from tests.process.test_hosts import joined


def refused(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One line with these words, no trace, and that exit code."""
    assert result.returncode == code, result.stderr
    assert result.stderr.startswith("cumulet: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture
def stopped(directory: Path) -> Path:
    """The data directory of a cloud that was made, and stopped."""
    with cloud(directory / "data") as up:
        assert up.stop() == 0
    return directory / "data"


def starts_again(data: Path) -> None:
    """Nothing was lost: the cloud is there, and its users get in."""
    with cloud(data) as up:
        assert up.login().status_code == 201
        assert up.get("/image/v2/images?name=tiny")["images"][0]["status"] == "active"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server\nport = 1", ("TOML",)),
        ("[server]\nconnections = 'x'", ("server.connections",)),
        ("[server]\nprot = 1", ("prot",)),
        ("[hosts]\ncount = -1", ("hosts.count",)),
        ("[auth]\npassword_regex = '('", ("auth.password_regex", "regular expression")),
        ("[database]\nurl = 'mysql://x'", ("postgresql://",)),
    ],
)
def test_broken_settings_name_the_file_and_the_setting(
    directory: Path, text: str, words: tuple[str, ...]
) -> None:
    file = directory / "cumulet.toml"
    file.write_text(text)
    named = () if "url" in text or "regex" in text else (str(file),)
    refused(
        run("up", "--data", directory / "data", "--port", "0", "--config", file), BAD_SETTINGS, *named, *words
    )


def test_a_settings_file_that_is_not_there(directory: Path) -> None:
    refused(run("up", "--data", directory, "--config", directory / "none.toml"), BAD_SETTINGS, "none.toml")


def test_a_broken_environment_variable_is_named(directory: Path) -> None:
    env = {"CUMULET_RECONCILE_PATIENCE": "soon"}
    refused(
        run("up", "--data", directory, env=env),
        BAD_SETTINGS,
        "reconcile.patience",
        "CUMULET_RECONCILE_PATIENCE",
    )


def test_an_environment_variable_that_is_no_setting(directory: Path) -> None:
    env = {"CUMULET_RECONCILE_PATENCE": "1"}
    refused(run("settings", "--data", directory, env=env), BAD_SETTINGS, "CUMULET_RECONCILE_PATENCE")


def test_an_address_that_others_reach_needs_a_word(directory: Path) -> None:
    refused(
        run("up", "--data", directory / "data", "--host", "0.0.0.0", "--port", "0"),
        BAD_SETTINGS,
        "--insecure",
    )


def test_a_port_in_use(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(run("up", "--data", directory / "data", "--port", str(port)), PORT, str(port), "--port")
    assert not (directory / "data/cumulet.db").exists()


def test_a_data_directory_in_use(directory: Path) -> None:
    with cloud(directory / "data") as up:
        second = run("up", "--port", "0", "--data", directory / "data")
        refused(second, IN_USE, str(up.process.pid), "cumulet down")
        assert up.login().status_code == 201


def test_a_newer_schema_is_left_alone(stopped: Path) -> None:
    _sql(stopped, "update alembic_version set version_num = '9999'")
    before = (stopped / "cumulet.db").read_bytes()
    refused(run("up", "--data", stopped, "--port", "0"), SCHEMA, "9999", "newer")
    assert (stopped / "cumulet.db").read_bytes() == before
    _sql(stopped, "update alembic_version set version_num = '0001'")
    starts_again(stopped)


def _sql(data: Path, sql: str) -> None:
    connection = sqlite3.connect(data / "cumulet.db")
    with connection:
        connection.execute(sql)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def test_a_file_that_is_no_database(directory: Path) -> None:
    (directory / "data").mkdir()
    (directory / "data/cumulet.db").write_text("something else " * 100)
    refused(run("up", "--data", directory / "data", "--port", "0"), SCHEMA, "not a database")


def test_a_database_of_somebody_else_is_left_alone(directory: Path) -> None:
    (directory / "data").mkdir()
    _sql(directory / "data", "create table theirs (id integer)")
    before = (directory / "data/cumulet.db").read_bytes()
    refused(run("up", "--data", directory / "data", "--port", "0"), SCHEMA, "theirs", "Nothing was changed")
    assert (directory / "data/cumulet.db").read_bytes() == before


def test_a_database_that_another_program_locks(stopped: Path) -> None:
    other = sqlite3.connect(stopped / "cumulet.db", isolation_level=None)
    other.execute("begin exclusive")
    refused(run("up", "--data", stopped, "--port", "0"), DATABASE, "locked by another program")
    other.execute("rollback")
    other.close()
    starts_again(stopped)


def test_a_lock_while_the_cloud_runs_is_answered_and_gets_over(directory: Path) -> None:
    with cloud(directory / "data") as up:
        up.login()
        other = sqlite3.connect(directory / "data/cumulet.db", isolation_level=None)
        other.execute("begin immediate")
        body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 1}}
        answer = up.request("POST", "/compute/v2.1/flavors", json=body)
        assert answer.status_code == 503
        assert "locked by another program" in answer.text
        assert up.get("/compute/v2.1/flavors")["flavors"]
        other.execute("rollback")
        other.close()
        up.post("/compute/v2.1/flavors", body)
        assert up.stop() == 0


def test_a_full_disk_is_answered_and_nothing_is_lost(directory: Path) -> None:
    with cloud(directory / "data") as up:
        up.login()
        body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 1}}
        up.limit_files(1024)
        answer = up.request("POST", "/compute/v2.1/flavors", json=body)
        assert answer.status_code == 503
        assert "disk" in answer.text
        assert up.http.get("/compute/v2.1/").status_code == 200
        up.limit_files(None)
        up.post("/compute/v2.1/flavors", body)
        up.kill()
    with cloud(directory / "data") as up:
        assert [f["name"] for f in up.get("/compute/v2.1/flavors")["flavors"]].count("f") == 1


def test_a_backup_without_room_says_so_and_leaves_no_half(directory: Path) -> None:
    with cloud(directory / "data") as up:
        before = sorted(os.listdir(directory / "data"))
        up.limit_files(1024)
        refused(
            run("backup", directory / "b", "--data", up.directory), FAILED, "could not be copied", "Make room"
        )
        up.limit_files(None)
        assert sorted(os.listdir(directory / "data")) == before
        assert run("backup", directory / "b", "--data", up.directory).returncode == 0


def test_a_backup_into_no_directory_and_out_of_no_backup(stopped: Path) -> None:
    place = stopped.parent / "none" / "b"
    refused(run("backup", place, "--data", stopped), NOT_WRITABLE, str(place.parent), "not a directory")
    refused(run("restore", __file__, "--data", stopped.parent / "new"), FAILED, "not a backup of Cumulet")
    assert not (stopped.parent / "new").exists()
    with (stopped / "cumulet.db").open("r+b") as file:
        file.write(b"something else")
    refused(run("backup", stopped.parent / "b", "--data", stopped), FAILED, "damaged")


def test_a_log_that_cannot_be_written_stops_nothing(directory: Path) -> None:
    with Path("/dev/full").open("w") as full:
        env = {"CUMULET_LOG_LEVEL": "debug", "CUMULET_LOG_REQUESTS": "true"}
        with cloud(directory / "data", env=env, stderr=full) as up:
            server = up.boot("s")
            up.await_server(server, "ACTIVE")
            up.request("DELETE", f"/compute/v2.1/servers/{server}")
            up.await_server(server, None)
            assert up.stop() == 0


@pytest.mark.parametrize("command", [["settings"], ["up", "--port", "0", "--data"]])
def test_output_that_cannot_be_written(directory: Path, command: list[str]) -> None:
    words = [*command, str(directory / "data")] if "up" in command else command
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "cumulet", *words], env=environment(), text=True, stdout=full,
            stderr=subprocess.PIPE, timeout=60,
        )  # fmt: skip
    refused(result, NOT_WRITABLE, "cannot be written", "Make room")


def test_a_full_disk_at_an_agent_fails_the_step_and_leaves_nothing(directory: Path) -> None:
    with (
        cloud(directory / "data", "--hypervisor", "none") as up,
        joined(up, directory / "far", "far") as host,
    ):
        host.limit_files(0)
        server = up.boot("unlucky")
        shown = up.await_server(server, "ERROR")
        assert shown is not None
        # Whose machine it is, and what it says; no path of the host, and no trace in its log.
        assert "far: " in shown["fault"]["message"]
        assert str(directory) not in shown["fault"]["message"]
        assert "Traceback" not in host.output
        host.limit_files(None)
        up.request("DELETE", f"/compute/v2.1/servers/{server}")
        up.await_server(server, None)
        until(lambda: up.get("/cumulet/v1/debts")["debts"] == [])
        assert host.process.poll() is None
        server = up.boot("lucky")
        up.await_server(server, "ACTIVE")


def test_a_disk_that_is_full_from_the_start(directory: Path) -> None:
    # No file can grow beyond what is there: the database cannot be made.
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
        "sys.argv = ['cumulet', 'up', '--port', '0', '--data', sys.argv[1]]; from cumulet.__main__ import main; main()"
    )
    data = directory / "data"
    result = subprocess.run(
        [sys.executable, "-c", script, str(data)],
        env=environment(),
        text=True,
        capture_output=True,
        timeout=60,
    )
    refused(result, NOT_WRITABLE, "disk is full")
    starts_again(data)


def test_a_place_that_is_not_a_directory(directory: Path) -> None:
    (directory / "file").write_text("")
    refused(
        run("up", "--data", directory / "file", "--port", "0"),
        NOT_WRITABLE,
        str(directory / "file"),
        "--data",
    )
    refused(run("up", "--data", directory / "file/data", "--port", "0"), NOT_WRITABLE, "--data")


def test_a_directory_that_may_not_be_written(directory: Path) -> None:
    place = directory / "others"
    place.mkdir(mode=0o555)
    # Nothing stops root, unless it lays down that right.
    plain = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    words = [*plain, sys.executable, "-m", "cumulet", "up", "--data", str(place / "data"), "--port", "0"]
    result = subprocess.run(words, env=environment(), text=True, capture_output=True, timeout=60)
    refused(result, NOT_WRITABLE, "Permission denied", "--data")


def test_what_is_no_file_is_never_replaced(directory: Path) -> None:
    """As root, a rename over a device would take it away from the whole machine."""
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    link = directory / "link"
    link.symlink_to(pipe)
    with cloud(directory / "data") as up:
        for place in (pipe, link, directory):
            refused(run("backup", place, "--data", up.directory), NOT_WRITABLE, "not a file")
            second = run("up", "--data", directory / "other", "--port", "0", "--write-env", place)
            assert second.returncode == NOT_WRITABLE
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_damaged_secrets(stopped: Path) -> None:
    kept = (stopped / "secrets").read_text()
    (stopped / "secrets").write_text("{")
    refused(run("up", "--data", stopped, "--port", "0"), NOT_WRITABLE, "secrets", "backup")
    (stopped / "secrets").write_text(kept)
    starts_again(stopped)


def test_a_database_server_that_does_not_answer(directory: Path) -> None:
    url = "postgresql://cumulet@127.0.0.1:1/cumulet"
    refused(
        run("up", "--data", directory / "data", "--port", "0", "--database", url), DATABASE, "does not answer"
    )


def test_commands_without_a_cloud(directory: Path) -> None:
    for words in (("audit",), ("token", "host", "x"), ("env",), ("host", "list")):
        refused(run(*words, "--data", directory / "none"), NOT_RUNNING, "cumulet up")


def test_who_names_a_data_directory_means_no_other_cloud(directory: Path) -> None:
    """Whatever the shell's variables lead to."""
    with cloud(directory / "data") as up:
        for words in (("audit",), ("token", "rotate"), ("host", "list")):
            refused(run(*words, "--data", directory / "none", env=up.variables), NOT_RUNNING, "none")
        assert run("host", "list", env={**up.variables, "XDG_DATA_HOME": str(directory)}).returncode == 0


def test_a_name_that_is_taken(directory: Path) -> None:
    with cloud(directory / "data") as up, joined(up, directory / "far", "far") as host:
        host.await_line("joins")
        refused(run("token", "host", "far", "--data", up.directory), REFUSED, "--renew")


def test_a_second_signal_is_not_needed(directory: Path) -> None:
    with started(Cloud(directory / "data")) as up:
        up.ready()
        assert up.stop() == 0
        assert run("up", "--nonsense").returncode == BAD_SETTINGS
