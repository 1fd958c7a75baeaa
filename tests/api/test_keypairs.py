"""Key pairs over HTTP."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import pkcs12
from tests.cloud import TestCloud, test_cloud

from cumulet.core import quota
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1/os-keypairs"
KEY = (
    ed25519.Ed25519PrivateKey.generate()
    .public_key()
    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    .decode()
)


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def put(cloud: TestCloud, name: str, version: str = "2.1", who: str = "demo", **more: Any) -> Any:
    body = {"keypair": {"name": name, "public_key": KEY, **more}}
    return await cloud.post(URL, as_=who, json=body, version=f"compute {version}")


async def test_shape_of_each_version(cloud: TestCloud) -> None:
    old = await put(cloud, "a")
    assert old.status_code == 200
    assert set(old.json()["keypair"]) == {"name", "public_key", "fingerprint", "user_id"}
    new = await put(cloud, "b", "2.2", type="ssh")
    assert new.status_code == 201
    assert set(new.json()["keypair"]) == {"name", "public_key", "fingerprint", "user_id", "type"}
    shown = {
        "name",
        "public_key",
        "fingerprint",
        "user_id",
        "id",
        "created_at",
        "deleted",
        "deleted_at",
        "updated_at",
    }
    assert set((await cloud.get(f"{URL}/a")).json()["keypair"]) == shown
    assert set((await cloud.get(f"{URL}/a", version="compute 2.2")).json()["keypair"]) == shown | {"type"}
    listed = (await cloud.get(URL)).json()["keypairs"]
    assert [set(item["keypair"]) for item in listed] == [{"name", "public_key", "fingerprint"}] * 2
    listed = (await cloud.get(URL, version="compute 2.2")).json()["keypairs"]
    assert set(listed[0]["keypair"]) == {"name", "public_key", "fingerprint", "type"}
    assert (await cloud.delete(f"{URL}/a")).status_code == 202
    assert (await cloud.delete(f"{URL}/b", version="compute 2.2")).status_code == 204
    assert (await cloud.delete(f"{URL}/b")).status_code == 404
    assert (await cloud.get(f"{URL}/b")).status_code == 404


async def test_a_pair_is_made_until_2_91(cloud: TestCloud) -> None:
    body: dict[str, Any] = {"keypair": {"name": "made"}}
    pair = (await cloud.post(URL, json=body, version="compute 2.91")).json()["keypair"]
    private = serialization.load_pem_private_key(pair["private_key"].encode(), None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert pair["public_key"].startswith(public.decode())
    assert "private_key" not in (await cloud.get(f"{URL}/made")).json()["keypair"]
    body["keypair"]["name"] = "another"
    assert (await cloud.post(URL, json=body, version="compute 2.92")).status_code == 400


async def test_certificates(cloud: TestCloud) -> None:
    body = {"keypair": {"name": "made", "type": "x509"}}
    pair = (await cloud.post(URL, json=body, version="compute 2.2")).json()["keypair"]
    bundle = pkcs12.load_pkcs12(base64.b64decode(pair["private_key"]), None)
    assert bundle.cert is not None
    assert bundle.cert.certificate.public_bytes(serialization.Encoding.PEM).decode() == pair["public_key"]
    again = await put(cloud, "imported", "2.92", type="x509", public_key=pair["public_key"])
    assert again.json()["keypair"]["fingerprint"] == pair["fingerprint"]


@pytest.mark.parametrize(
    "key",
    [
        "", "ssh-rsa", "ssh-rsa AAAA", "nonsense", pytest.param(KEY[:40], id="cut"), "ssh-rsa \ud7ff",
        pytest.param(f"ssh-rsa {'A' * 2048} c", id="long"),
    ],
)  # fmt: skip
async def test_no_key(cloud: TestCloud, key: str) -> None:
    for kind in ("ssh", "x509"):
        assert (await put(cloud, "a", "2.2", type=kind, public_key=key)).status_code == 400


@pytest.mark.parametrize("name", ["", " ", "a ", "a/b", "k" * 256, "a:b", "key@host.example"])
async def test_bad_names(cloud: TestCloud, name: str) -> None:
    assert (await put(cloud, name, "2.91")).status_code == 400


async def test_names_are_wider_since_2_92(cloud: TestCloud) -> None:
    assert (await put(cloud, "key@host.example", "2.92")).status_code == 201
    assert (await cloud.get(f"{URL}/key@host.example")).status_code == 200


async def test_unknown_fields(cloud: TestCloud) -> None:
    assert (await put(cloud, "a", "2.1", type="ssh")).status_code == 400
    assert (await put(cloud, "a", "2.9", user_id="u")).status_code == 400
    assert (await put(cloud, "a", "2.92", type="gpg")).status_code == 400
    assert (await put(cloud, "a", "2.92", public_key=None)).status_code == 400


async def test_taken_names(cloud: TestCloud) -> None:
    assert (await put(cloud, "a")).status_code == 200
    assert (await put(cloud, "a")).status_code == 409
    assert (await put(cloud, "a", who="other")).status_code == 200


async def test_only_administrators_name_another_user(cloud: TestCloud) -> None:
    mine = (await put(cloud, "mine", "2.10")).json()["keypair"]
    path = f"{URL}?user_id={mine['user_id']}"
    assert (await cloud.get(path, as_="other", version="compute 2.10")).status_code == 403
    assert (await cloud.get(path, as_="other", version="compute 2.9")).json() == {"keypairs": []}
    assert len((await cloud.get(path, as_="admin", version="compute 2.10")).json()["keypairs"]) == 1
    assert (await put(cloud, "a", "2.10", "other", user_id=mine["user_id"])).status_code == 403
    assert (await put(cloud, "given", "2.10", "admin", user_id=mine["user_id"])).status_code == 201
    one = f"{URL}/given?user_id={mine['user_id']}"
    assert (await cloud.get(f"{URL}/given", as_="demo")).status_code == 200
    assert (await cloud.delete(one, as_="other", version="compute 2.10")).status_code == 403
    assert (await cloud.delete(one, as_="admin", version="compute 2.10")).status_code == 204


async def test_pages_since_2_35(cloud: TestCloud) -> None:
    for name in ("c", "a", "b"):
        await put(cloud, name)
    assert len((await cloud.get(f"{URL}?limit=2", version="compute 2.34")).json()["keypairs"]) == 3
    first = (await cloud.get(f"{URL}?limit=2", version="compute 2.35")).json()
    assert [item["keypair"]["name"] for item in first["keypairs"]] == ["a", "b"]
    second = (await cloud.get(first["keypairs_links"][0]["href"], version="compute 2.35")).json()
    assert [item["keypair"]["name"] for item in second["keypairs"]] == ["c"]
    assert "keypairs_links" not in second
    assert (await cloud.get(f"{URL}?marker=x", version="compute 2.35")).status_code == 400


async def test_the_limit_counts_what_one_user_has(cloud: TestCloud) -> None:
    await cloud.db.write(quota.set_limits, "compute", quota.DEFAULT_CLASS, {"key_pairs": 2})
    assert (await put(cloud, "a")).status_code == 200
    assert (await put(cloud, "b")).status_code == 200
    over = await put(cloud, "c")
    assert over.status_code == 403
    assert "2 of 2" in over.json()["forbidden"]["message"]
    assert (await put(cloud, "c", who="reader")).status_code == 200
    await cloud.delete(f"{URL}/a")
    assert (await put(cloud, "c")).status_code == 200
