"""What gophercloud, Terraform, Horizon and their like rely on, byte for byte over a real socket."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.contract.clients import until
from tests.process.cumulet import Cloud

#: Path → status of the documents that need no token.
ROOTS = {
    "/identity": 300, "/identity/v3": 200, "/image": 300, "/compute": 200,
    "/compute/v2.1": 200, "/volume": 300, "/volume/v3": 200, "/network": 200, "/network/v2.0": 200,
    "/placement": 200,
}  # fmt: skip


class Demo:
    """The user demo, with a token of its own."""

    def __init__(self, up: Cloud) -> None:
        self.http = up.http
        password = next(
            line.split("'")[1]
            for line in (up.directory / "clouds.yaml").read_text().split("username: 'demo'")[1].splitlines()
            if "password:" in line
        )
        answer = up.login("demo", password)
        assert answer.status_code == 201
        self.token = answer.headers["x-subject-token"]
        self.project = answer.json()["token"]["project"]["id"]
        self.catalogue = {
            service["type"]: {one["interface"]: one["url"] for one in service["endpoints"]}
            for service in answer.json()["token"]["catalog"]
        }
        self.body = answer.json()

    def ask(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        return self.http.request(
            method, path, headers={"X-Auth-Token": self.token, **(headers or {})}, **more
        )

    def get(self, path: str, **headers: str) -> Any:
        answer = self.ask(
            "GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def demo(up: Cloud) -> Demo:
    return Demo(up)


@pytest.mark.parametrize(("path", "status"), ROOTS.items())
def test_a_root_needs_no_token_and_speaks_of_the_host_that_was_asked(
    up: Cloud, path: str, status: int
) -> None:
    for exact in (path, f"{path}/"):
        answer = up.http.get(exact, headers={"Host": "cloud.example:8080"})
        assert answer.status_code == status, exact
        hosts = [link["href"] for link in links(answer.json()) if link["rel"] in ("self", "collection")]
        # A forwarded name is believed only from behind a proxy.
        # Placement's link to itself is empty, as upstream's.
        assert hosts
        assert all(href.startswith("http://cloud.example:8080/") or href == "" for href in hosts), hosts
        head = up.http.head(exact)
        assert (head.status_code, head.content) == (status, b"")
        forged = up.http.get(
            exact, headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
        )
        assert "evil" not in forged.text


def links(document: Any) -> Iterator[dict[str, str]]:
    if isinstance(document, dict):
        if "href" in document and "rel" in document:
            yield document
        for inner in document.values():
            yield from links(inner)
    elif isinstance(document, list):
        for inner in document:
            yield from links(inner)


def test_what_version_documents_promise(up: Cloud, demo: Demo) -> None:
    (compute,) = [v for v in up.http.get("/compute/").json()["versions"] if v["id"] == "v2.1"]
    assert (compute["status"], compute["min_version"], compute["version"]) == ("CURRENT", "2.1", "2.104")
    (volume,) = up.http.get("/volume/").json()["versions"]
    assert (volume["status"], volume["min_version"], volume["version"]) == ("CURRENT", "3.0", "3.71")
    (placement,) = up.http.get("/placement/").json()["versions"]
    assert (placement["min_version"], placement["max_version"]) == ("1.0", "1.39")
    for service, legacy, least, most in (
        ("compute", "X-OpenStack-Nova-API-Version", "2.1", "2.104"), ("volume", "", "3.0", "3.71"),
        ("placement", "", "1.0", "1.39"),
    ):  # fmt: skip
        path = {"compute": "/compute/v2.1/flavors", "volume": "/volume/v3/types", "placement": "/placement"}[
            service
        ]
        for asked, got in ((None, least), ("latest", most), (most, most)):
            headers = {} if asked is None else {"OpenStack-API-Version": f"{service} {asked}"}
            answer = demo.ask("GET", path, headers=headers)
            assert answer.status_code == 200
            if service != "placement" or asked is not None:
                assert answer.headers["OpenStack-API-Version"] == f"{service} {got}"
            assert "OpenStack-API-Version" in answer.headers["Vary"]
            assert answer.headers["x-openstack-request-id"].startswith("req-")
        refused = demo.ask("GET", path, headers={"OpenStack-API-Version": f"{service} 9.999"})
        assert refused.status_code == 406
        assert least in refused.text
        assert most in refused.text
        if legacy:
            answer = demo.ask("GET", path, headers={legacy: "2.61"})
            assert answer.headers[legacy] == "2.61"
            assert legacy in answer.headers["Vary"]
    # gophercloud sends both; the newer header counts. One for another service is none for this one.
    both = {"X-OpenStack-Nova-API-Version": "2.10", "OpenStack-API-Version": "compute 2.61"}
    assert (
        demo.ask("GET", "/compute/v2.1/flavors", headers=both).headers["OpenStack-API-Version"]
        == "compute 2.61"
    )
    other = {"OpenStack-API-Version": "volume 3.50"}
    assert (
        demo.ask("GET", "/compute/v2.1/flavors", headers=other).headers["OpenStack-API-Version"]
        == "compute 2.1"
    )


def test_the_catalogue(up: Cloud, demo: Demo) -> None:
    assert set(demo.catalogue) == {
        "identity", "image", "compute", "placement", "network", "block-storage", "volumev3",
    }  # fmt: skip
    assert demo.catalogue["volumev3"] == demo.catalogue["block-storage"]
    for urls in demo.catalogue.values():
        assert set(urls) == {"public", "internal", "admin"}
        assert all(url.startswith(up.url) for url in urls.values())
        # gophercloud puts a slash behind whatever it finds there.
        for url in {urls["public"], urls["public"] + "/"}:
            assert up.http.get(url).status_code in (200, 300)


def test_a_token_is_rescoped_as_dashboards_do_it(up: Cloud, demo: Demo) -> None:
    def tokens(auth: dict[str, Any]) -> Any:
        return up.http.post("/identity/v3/auth/tokens", json={"auth": auth})

    by_token = {"methods": ["token"], "token": {"id": demo.token}}
    unscoped = tokens({"identity": by_token, "scope": "unscoped"})
    assert unscoped.status_code == 201
    assert "project" not in unscoped.json()["token"]
    headers = {"X-Auth-Token": unscoped.headers["x-subject-token"]}
    projects = up.http.get("/identity/v3/auth/projects", headers=headers).json()["projects"]
    assert [project["name"] for project in projects] == ["demo"]
    again = {"methods": ["token"], "token": {"id": headers["X-Auth-Token"]}}
    scoped = tokens({"identity": again, "scope": {"project": {"id": projects[0]["id"]}}})
    assert scoped.status_code == 201
    assert scoped.json()["token"]["project"]["id"] == demo.project
    assert tokens({"identity": again, "scope": {"project": {"id": "none"}}}).status_code in (401, 404)
    # The chain of one login ends with it.
    gone = demo.ask(
        "DELETE", "/identity/v3/auth/tokens", headers={"X-Subject-Token": headers["X-Auth-Token"]}
    )
    assert gone.status_code == 204
    assert up.http.get("/identity/v3/auth/projects", headers=headers).status_code == 401


def test_a_name_in_the_place_of_an_id_is_not_found(demo: Demo) -> None:
    """Clients try every name as an id first, and take anything but 404 for a failure."""
    for path in (
        "/compute/v2.1/servers", "/compute/v2.1/flavors", "/compute/v2.1/os-keypairs",
        "/compute/v2.1/os-server-groups", "/image/v2/images", "/network/v2.0/networks", "/network/v2.0/subnets",
        "/network/v2.0/ports", "/network/v2.0/routers", "/network/v2.0/floatingips", "/network/v2.0/security-groups",
        "/network/v2.0/security-group-rules", "/volume/v3/volumes", "/volume/v3/snapshots", "/volume/v3/types",
        "/volume/v3/backups", "/identity/v3/regions", "/compute/v2.1/images",
    ):  # fmt: skip
        for name in ("my name", "private", "a%2Fb", "ä", "42x", "0", "-1", "%00", "a" * 300):
            answer = demo.ask("GET", f"{path}/{name}")
            assert answer.status_code == 404, f"{path}/{name}: {answer.status_code} {answer.text}"


def test_lists_are_narrowed_as_clients_do_it(demo: Demo) -> None:
    ports = demo.get("/network/v2.0/ports?fields=id&fields=name")["ports"]
    assert all(set(port) == {"id", "name"} for port in ports)
    image = demo.get("/image/v2/images?name=tiny")["images"][0]["id"]
    assert [i["id"] for i in demo.get(f"/image/v2/images?id=in:{image}")["images"]] == [image]
    assert demo.get(f"/image/v2/images?id=in:{image[::-1]}")["images"] == []
    assert demo.get("/compute/v2.1/flavors/detail?is_public=None")["flavors"]
    assert demo.get("/compute/v2.1/servers/detail?deleted=False&name=%5Enone%24")["servers"] == []
    assert demo.get("/compute/v2.1/limits?reserved=False")["limits"]["absolute"]
    assert demo.get("/network/v2.0/service-providers?service_type=VPN") == {"service_providers": []}
    names = {one["name"] for one in demo.get("/network/v2.0/extensions")["extensions"]}
    assert "Availability Zone" in names


def states(read: Callable[[], str | None], until_: str | None, seen: list[str]) -> None:
    """Every state that shows until one does, or until the thing is gone."""

    def look() -> bool:
        found = read()
        if found is not None and (not seen or seen[-1] != found):
            seen.append(found)
        return found == until_

    until(look, f"{until_} after {seen}")


def test_the_states_that_terraform_waits_through(demo: Demo) -> None:
    """It takes any state that it does not expect for an error."""

    def status(path: str, noun: str) -> Callable[[], str | None]:
        def read() -> str | None:
            answer = demo.ask("GET", path)
            assert answer.status_code in (200, 404), answer.text
            return None if answer.status_code == 404 else str(answer.json()[noun]["status"])

        return read

    image = demo.get("/image/v2/images?name=tiny")["images"][0]["id"]
    private = demo.get("/network/v2.0/networks?name=private")["networks"][0]["id"]
    volume = demo.ask(
        "POST", "/volume/v3/volumes", json={"volume": {"size": 1, "name": "t", "imageRef": image}}
    )
    assert volume.status_code == 202
    volume_path = f"/volume/v3/volumes/{volume.json()['volume']['id']}"
    seen: list[str] = [volume.json()["volume"]["status"]]
    states(status(volume_path, "volume"), "available", seen)
    assert set(seen[:-1]) <= {"creating", "downloading"}

    body = {"name": "t", "imageRef": image, "flavorRef": "1", "networks": [{"uuid": private}]}
    made = demo.ask("POST", "/compute/v2.1/servers", json={"server": body})
    assert made.status_code == 202
    assert set(made.json()["server"]) >= {"id", "links", "adminPass", "security_groups", "OS-DCF:diskConfig"}
    server = made.json()["server"]["id"]
    path = f"/compute/v2.1/servers/{server}"
    seen = []
    states(status(path, "server"), "ACTIVE", seen)
    assert set(seen) <= {"BUILD", "ACTIVE"}
    tags = demo.ask(
        "PUT", f"{path}/tags", json={"tags": ["a"]}, headers={"OpenStack-API-Version": "compute 2.26"}
    )
    assert tags.status_code == 200
    port = demo.get(f"/network/v2.0/ports?device_id={server}")["ports"][0]
    assert port["status"] in ("ACTIVE", "DOWN", "BUILD")

    attached = demo.ask(
        "POST",
        f"{path}/os-volume_attachments",
        json={"volumeAttachment": {"volumeId": volume.json()["volume"]["id"]}},
    )
    assert attached.status_code == 200
    assert set(attached.json()["volumeAttachment"]) == {"device", "id", "serverId", "volumeId"}
    seen = []
    states(status(volume_path, "volume"), "in-use", seen)
    assert set(seen) <= {"available", "reserved", "attaching", "in-use"}
    # No second one, and no delete.
    assert demo.ask("DELETE", volume_path).status_code == 400
    detached = demo.ask("DELETE", f"{path}/os-volume_attachments/{volume.json()['volume']['id']}")
    assert detached.status_code == 202
    seen = []
    states(status(volume_path, "volume"), "available", seen)
    assert set(seen) <= {"in-use", "detaching", "available"}

    address = demo.get("/network/v2.0/networks?router:external=true")["networks"][0]["id"]
    floating = demo.ask(
        "POST", "/network/v2.0/floatingips",
        json={"floatingip": {"floating_network_id": address, "port_id": port["id"]}},
    ).json()["floatingip"]  # fmt: skip
    addresses = demo.get(path)["server"]["addresses"]["private"]
    assert floating["floating_ip_address"] in [one["addr"] for one in addresses]

    assert demo.ask("DELETE", path).status_code == 204
    seen = []
    states(status(path, "server"), None, seen)
    assert set(seen) <= {"ACTIVE", "DELETED"}
    assert demo.get("/network/v2.0/floatingips")["floatingips"][0]["port_id"] is None
    assert demo.ask("DELETE", f"/network/v2.0/floatingips/{floating['id']}").status_code == 204
    assert demo.ask("DELETE", volume_path).status_code == 202
    seen = []
    states(status(volume_path, "volume"), None, seen)
    assert set(seen) <= {"available", "deleting"}


def test_a_body_in_pieces(demo: Demo) -> None:
    """An image is uploaded without a length, as clients with a pipe do it, and read back in a range's stead whole."""
    body = {"name": "p", "disk_format": "raw", "container_format": "bare"}
    image = demo.ask("POST", "/image/v2/images", json=body).json()["id"]
    pieces = [bytes([n]) * 70_000 for n in range(20)]
    answer = demo.ask(
        "PUT", f"/image/v2/images/{image}/file", content=iter(pieces),
        headers={"Content-Type": "application/octet-stream"},
    )  # fmt: skip
    assert answer.status_code == 204, answer.text
    back = demo.ask("GET", f"/image/v2/images/{image}/file")
    assert back.content == b"".join(pieces)
    assert back.headers["content-md5"] == demo.get(f"/image/v2/images/{image}")["checksum"]
    assert demo.ask("DELETE", f"/image/v2/images/{image}").status_code == 204


class Line:
    """A socket to the cloud, for what no client library would send."""

    def __init__(self, up: Cloud) -> None:
        host, port = up.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)

    def say(self, data: bytes) -> bytes:
        """Send, end, and read all that comes."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
        return self.read()

    def read(self) -> bytes:
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := self.socket.recv(65536):
                found += piece
        return found

    def close(self) -> None:
        self.socket.close()


def test_what_is_not_http_ends_in_a_4xx_and_hurts_nobody(up: Cloud, demo: Demo) -> None:
    head = b"GET /compute/v2.1/flavors HTTP/1.1\r\nHost: c\r\nConnection: close\r\n"
    for data, statuses in (
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n", {400}),
        (b"GET / HTTP/9.9\r\n\r\n", {400, 505}),
        (b"NONSENSE\r\n\r\n", {400}),
        (head + b"X-Big: " + b"a" * 200_000 + b"\r\n\r\n", {400, 401, 431}),
        (head + b"Content-Length: -1\r\n\r\n", {400}),
        (head + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", {400}),
        (head + b"X-Auth-Token: \xff\xfe\r\n\r\n", {400, 401}),
        (head + b"X-Auth-Token: a\r\nX-Auth-Token: b\r\n\r\n", {400, 401}),
        (
            b"GET /compute/v2.1/servers/\xff\xfe HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n",
            {400, 401, 404},
        ),
        (b"GET /compute/../../etc/passwd HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n", {400, 401, 404}),
        (b"GET http://[::1/ HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n", {200, 300, 400, 404}),
        (b"OPTIONS * HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n", {400, 404, 405}),
        (b"TRACE /compute HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n", {400, 405}),
        (
            b"POST /identity/v3/auth/tokens HTTP/1.1\r\nHost: c\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            {400},
        ),
    ):
        line = Line(up)
        with contextlib.closing(line):
            answer = line.say(data)
        status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 400
        assert status in statuses, (data[:80], answer[:300])
        assert b"Traceback" not in answer
    assert demo.ask("GET", "/compute/v2.1/flavors").status_code == 200


def test_a_client_that_leaves_in_the_middle_leaves_nothing(up: Cloud, demo: Demo) -> None:
    """Half a body is no request; half an image is none, and stays queued."""
    line = Line(up)
    body = json.dumps({"server": {"name": "half"}}).encode()
    line.socket.sendall(
        b"POST /compute/v2.1/servers HTTP/1.1\r\nHost: c\r\nX-Auth-Token: %s\r\nContent-Length: %d\r\n\r\n%s"
        % (demo.token.encode(), len(body) + 100, body)
    )
    line.close()
    image = demo.ask(
        "POST", "/image/v2/images", json={"name": "h", "disk_format": "raw", "container_format": "bare"}
    ).json()["id"]
    line = Line(up)
    line.socket.sendall(
        b"PUT /image/v2/images/%s/file HTTP/1.1\r\nHost: c\r\nX-Auth-Token: %s\r\nContent-Length: 1000000\r\n"
        b"Content-Type: application/octet-stream\r\n\r\n%s"
        % (image.encode(), demo.token.encode(), b"x" * 300_000)
    )
    until(lambda: demo.get(f"/image/v2/images/{image}")["status"] == "saving", "the upload to begin")
    line.close()
    until(lambda: demo.get(f"/image/v2/images/{image}")["status"] == "queued", "the upload to be given up")
    assert demo.ask("DELETE", f"/image/v2/images/{image}").status_code == 204
    assert demo.get("/compute/v2.1/servers?name=half")["servers"] == []


def test_a_body_is_waited_for_when_the_client_asks(up: Cloud, demo: Demo) -> None:
    """Expect: 100-continue, which curl sends with every body of some size."""
    body = json.dumps({"keypair": {"name": "e"}}).encode()
    line = Line(up)
    with contextlib.closing(line):
        line.socket.sendall(
            b"POST /compute/v2.1/os-keypairs HTTP/1.1\r\nHost: c\r\nConnection: close\r\nExpect: 100-continue\r\n"
            b"X-Auth-Token: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (demo.token.encode(), len(body))
        )
        assert line.socket.recv(1000).startswith(b"HTTP/1.1 100")
        answer = line.say(body)
    assert answer.startswith(b"HTTP/1.1 200")
    assert demo.ask("DELETE", "/compute/v2.1/os-keypairs/e").status_code == 202
