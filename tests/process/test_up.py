"""``cumulet up`` and the commands around it, as a user types them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import yaml

from cumulet import __version__
from tests.process.cumulet import Cloud, cloud, run, started, until


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_cloud_serves_and_is_not_empty(directory: Path) -> None:
    data = directory / "data"
    with cloud(data) as up:
        assert up.http.get("/healthz").json()["status"] == "ok"
        names = {flavor["name"] for flavor in up.get("/compute/v2.1/flavors")["flavors"]}
        assert "m1.tiny" in names
        image = up.get("/image/v2/images?name=tiny")["images"][0]
        assert (image["status"], image["visibility"]) == ("active", "public")
        networks = {network["name"] for network in up.get("/network/v2.0/networks")["networks"]}
        assert networks >= {"private", "public"}
        assert up.get("/network/v2.0/routers")["routers"]
        agents = up.get("/cumulet/v1/agents")["agents"]
        assert {agent["state"] for agent in agents} == {"up"}
        assert [agent["name"] for agent in agents if agent["kind"] == "host"] == ["h1", "h2", "h3"]
        server = up.boot("first")
        up.await_server(server, "ACTIVE")
        assert up.stop() == 0
    assert mode(data) == 0o700
    for name in ("secrets", "clouds.yaml", "cumulet.db", "lock"):
        assert mode(data / name) == 0o600, name
    assert mode(up.env_file) == 0o600


def test_clouds_yaml_lets_both_users_in(directory: Path) -> None:
    with cloud(directory / "data") as up:
        clouds = yaml.safe_load((directory / "data/clouds.yaml").read_text())["clouds"]
        assert set(clouds) == {"cumulet", "cumulet-demo"}
        for entry in clouds.values():
            auth = entry["auth"]
            assert auth["auth_url"] == f"{up.url}/identity/v3"
            assert up.login(auth["username"], auth["password"]).status_code == 201


def test_the_variables_are_written_once_the_cloud_answers(directory: Path) -> None:
    with started(Cloud(directory / "data")) as up:
        until(up.env_file.exists)
        up.ready()
        assert up.variables["OS_AUTH_URL"] == f"{up.url}/identity/v3"
        assert up.login().status_code == 201


def test_everything_is_as_it_was_after_a_kill(directory: Path) -> None:
    with cloud(directory / "data") as up:
        password = up.variables["OS_PASSWORD"]
        server = up.boot("kept")
        up.await_server(server, "ACTIVE")
        before = {path: up.get(path) for path in ("/compute/v2.1/flavors", "/cumulet/v1/claims")}
        up.kill()
    with cloud(directory / "data") as up:
        assert up.variables["OS_PASSWORD"] == password
        shown = up.server(server)
        assert shown is not None
        assert shown["status"] == "ACTIVE"
        flavors = up.get("/compute/v2.1/flavors")["flavors"]
        assert [flavor["id"] for flavor in flavors] == [
            f["id"] for f in before["/compute/v2.1/flavors"]["flavors"]
        ]
        claims = {claim["id"] for claim in up.get("/cumulet/v1/claims")["claims"]}
        assert claims == {claim["id"] for claim in before["/cumulet/v1/claims"]["claims"]}
        assert up.get("/cumulet/v1/orphans")["orphans"] == []
        up.request("DELETE", f"/compute/v2.1/servers/{server}")
        up.await_server(server, None)


def test_a_kill_in_the_middle_of_a_build_loses_nothing(directory: Path) -> None:
    with cloud(directory / "data") as up:
        up.post("/cumulet/v1/faults", {"step": "guest.ensure", "effect": "hold"})
        server = up.boot("half")
        until(lambda: any(c["kind"] == "disk" and c["state"] == "present" for c in claims(up, server)))
        up.kill()
    with cloud(directory / "data") as up:
        for fault in up.get("/cumulet/v1/faults")["faults"]:
            up.request("DELETE", f"/cumulet/v1/faults/{fault['id']}")
        up.await_server(server, "ACTIVE")
        up.request("DELETE", f"/compute/v2.1/servers/{server}")
        up.await_server(server, None)
        until(lambda: up.get("/cumulet/v1/debts")["debts"] == [])


def claims(up: Cloud, server: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = up.get(f"/cumulet/v1/claims?server={server}")["claims"]
    return found


def test_an_end_by_signal_ends_polls_and_leaves_guests(directory: Path) -> None:
    with cloud(directory / "data") as up:
        server = up.boot("stays")
        up.await_server(server, "ACTIVE")
        assert up.stop() == 0
        guests = list((directory / "data/agents").glob("host-*/guest/*"))
        assert len(guests) == 1
        assert "Traceback" not in up.output
        assert not (directory / "data/process.json").exists()


def test_down_status_and_env(directory: Path) -> None:
    data = directory / "data"
    with cloud(data) as up:
        found = json.loads(run("status", "--data", data, "--json").stdout)
        assert found["pid"] == up.process.pid
        assert found["url"] == up.url
        assert found["version"] == __version__
        assert found["health"]["agents"]["up"] == 6
        assert found["counts"]["images"] == 1
        assert "serves at" in run("status", "--data", data).stdout
        admin = run("env", "--data", data).stdout
        assert f"export OS_PASSWORD={up.variables['OS_PASSWORD']}\n" in admin
        assert "export OS_USERNAME=demo\n" in run("env", "--data", data, "--user", "demo").stdout
        assert json.loads(run("env", "--data", data, "--json").stdout)["OS_USERNAME"] == "admin"
        # The operator's commands work in a shell that is another user's, and elsewhere by the variables alone.
        demo = dict(
            line.removeprefix("export ").split("=", 1)
            for line in run("env", "--data", data, "--user", "demo").stdout.splitlines()
        )
        assert run("audit", "--data", data, env=demo).returncode == 0
        elsewhere = {"XDG_DATA_HOME": str(directory / "none")}
        assert run("audit", env={**up.variables, **elsewhere}).returncode == 0
        assert run("audit", env={**demo, **elsewhere}).returncode == 9
        assert "Stopped process" in run("down", "--data", data).stdout
        assert up.process.wait(10) == 0
    for command in ("down", "status"):
        ended = run(command, "--data", data)
        assert ended.returncode == 8
        assert "cumulet up" in ended.stderr


def test_merge_keeps_the_users_own_clouds(directory: Path) -> None:
    mine = directory / "clouds.yaml"
    mine.write_text("# mine\nclouds:\n  work: # the big one\n    auth: {auth_url: 'https://work'}\n")
    with cloud(directory / "data", "--merge", env={"OS_CLIENT_CONFIG_FILE": str(mine)}):
        text = mine.read_text()
        assert text.startswith("# mine\nclouds:\n  work: # the big one\n")
        assert set(yaml.safe_load(text)["clouds"]) == {"work", "cumulet", "cumulet-demo"}
        backup = directory / "clouds.yaml.before-cumulet"
        assert "cumulet" not in backup.read_text()
        assert mode(mine) == 0o600


def test_metrics_count_what_was_asked(directory: Path) -> None:
    with cloud(directory / "data") as up:
        up.get("/compute/v2.1/flavors")
        text = up.http.get("/metrics").text
        line = 'cumulet_requests_total{area="compute",method="GET",route="/v2.1/flavors",status="200"} 1.0'
        assert line in text
        assert 'cumulet_agents{kind="host",state="up"} 3.0' in text
        assert "cumulet_database_commits_total" in text
        assert "cumulet_orphans 0.0" in text


def test_json_logs_carry_the_request_id_and_no_secret(directory: Path) -> None:
    env = {"CUMULET_LOG_REQUESTS": "true", "CUMULET_LOG_FORMAT": "json"}
    with cloud(directory / "data", env=env) as up:
        answer = up.login()
        line = json.loads(up.await_line(answer.headers["x-openstack-request-id"]))
        assert (line["event"], line["status"], line["method"]) == ("request", 201, "POST")
        assert up.stop() == 0
        assert up.variables["OS_PASSWORD"] not in up.output
        assert answer.headers["x-subject-token"] not in up.output


def test_a_request_can_be_followed_to_the_agent(directory: Path) -> None:
    with cloud(directory / "data", env={"CUMULET_LOG_FORMAT": "json", "CUMULET_LOG_LEVEL": "debug"}) as up:
        image = up.get("/image/v2/images?name=tiny")["images"][0]["id"]
        flavor = up.get("/compute/v2.1/flavors")["flavors"][0]["id"]
        server = {"name": "s", "imageRef": image, "flavorRef": flavor, "networks": "none"}
        made = up.request("POST", "/compute/v2.1/servers", json={"server": server})
        id = made.json()["server"]["id"]
        up.await_server(id, "ACTIVE")
        gone = up.request("DELETE", f"/compute/v2.1/servers/{id}")
        up.await_server(id, None)
        up.stop()
    lines = [json.loads(line) for line in up.lines if line.startswith("{")]
    for answer, steps in ((made, {"disk.ensure", "guest.ensure"}), (gone, {"guest.remove", "disk.remove"})):
        mine = [line for line in lines if line.get("request_id") == answer.headers["x-openstack-request-id"]]
        assert {line["step"] for line in mine if line["event"] == "step done"} == steps
    assert any(line["event"] == "reconciled" and line["request_id"] for line in lines)


def test_the_first_words(directory: Path) -> None:
    assert run("--version").stdout == f"cumulet, version {__version__}\n"
    help = run("--help").stdout
    for command in ("up", "down", "status", "env", "backup", "restore", "audit", "host", "token", "settings"):
        assert f"\n  {command} " in help
    assert os.linesep in help
