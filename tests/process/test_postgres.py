"""Several control processes over one PostgreSQL: they share the work, and any of them may be killed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.process.cumulet import Cloud, started, until

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_cluster: str) -> Iterator[str]:
    """An empty database, without our schema."""
    with psycopg.connect(postgres_cluster + "/postgres", autocommit=True) as connection:
        connection.execute("create database shared")
        yield postgres_cluster + "/shared"
        connection.execute("drop database shared with (force)")


@contextlib.contextmanager
def two(directory: Path, url: str) -> Iterator[tuple[Cloud, Cloud]]:
    """One process with the agents, and one beside it; the second knows the users from the first."""
    with started(Cloud(directory / "one", "--database", url)) as one:
        one.ready()
        data = directory / "two"
        data.mkdir()
        (data / "secrets").write_bytes((directory / "one/secrets").read_bytes())
        with started(Cloud(data, "--database", url, "--roles", "api,reconcile")) as two:
            yield one, two.ready()


def test_both_serve_and_agents_answer_through_the_other_one(directory: Path, url: str) -> None:
    with two(directory, url) as (one, other):
        # The token of one is good at the other, and what is asked of one is done by the agents of the other.
        assert other.get("/compute/v2.1/flavors") != {"flavors": []}
        image = other.post(
            "/image/v2/images",
            {"name": "up", "disk_format": "raw", "container_format": "bare", "visibility": "public"},
        )["id"]
        content = bytes(range(256)) * 20000
        headers = {"Content-Type": "application/octet-stream"}
        token = other.login().headers["x-subject-token"]
        file = f"/image/v2/images/{image}/file"
        sent = other.http.put(file, content=content, headers={**headers, "X-Auth-Token": token})
        assert sent.status_code == 204, sent.text
        for process in (one, other):
            assert process.request("GET", file).content == content
        server = other.boot("there")
        for process in (other, one):
            process.await_server(server, "ACTIVE")
        log = other.post(f"/compute/v2.1/servers/{server}/action", {"os-getConsoleOutput": {}})
        assert "login:" in log["output"]
        other.request("DELETE", f"/compute/v2.1/servers/{server}")
        one.await_server(server, None)
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) from questions").fetchone() == (0,)


def test_either_may_be_killed(directory: Path, url: str) -> None:
    with two(directory, url) as (one, other):
        names = [one.boot(f"a{i}") for i in range(3)] + [other.boot(f"b{i}") for i in range(3)]
        other.kill()
        for server in names:
            one.await_server(server, "ACTIVE")
        for server in names:
            one.request("DELETE", f"/compute/v2.1/servers/{server}")
        one.kill()
        with started(Cloud(directory / "one", "--database", url)) as again:
            again.ready()
            for server in names:
                again.await_server(server, None)
            until(lambda: again.get("/cumulet/v1/claims?kind=guest")["claims"] == [])
            assert again.get("/cumulet/v1/debts")["debts"] == []
            assert again.get("/cumulet/v1/orphans")["orphans"] == []


def test_two_that_start_at_once_make_one_cloud(directory: Path, url: str) -> None:
    env = {"CUMULET_AUTH_ADMIN_PASSWORD": "open", "CUMULET_AUTH_DEMO_PASSWORD": "sesame"}
    with (
        started(Cloud(directory / "one", "--database", url, env=env)) as one,
        started(Cloud(directory / "two", "--database", url, "--roles", "api,reconcile", env=env)) as two,
    ):
        for process in (one, two):
            process.ready()
            assert process.login("demo", "sesame").status_code == 201
            assert process.login("admin", "open").status_code == 201


def test_a_break_of_the_connection_is_got_over(directory: Path, url: str) -> None:
    with two(directory, url) as (one, other):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'shared' and pid <> pg_backend_pid()"
            )

        def answers() -> bool:
            return (
                one.http.get("/healthz").status_code == 200 and other.http.get("/healthz").status_code == 200
            )

        until(answers)
        server = other.boot("after")
        one.await_server(server, "ACTIVE")
