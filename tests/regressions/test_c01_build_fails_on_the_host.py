"""C01: the build fails on the host after ports and volumes are in place. Nova LP 1404867, 1408527."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, NETWORK, stage

pytestmark = pytest.mark.anyio


async def test_a_failed_build_holds_nothing_on_its_host_and_delete_frees_the_rest(
    db: Database, directory: Path
) -> None:
    async with stage(db, directory, hosts=1, build_attempts=1) as case:
        port, volume = await case.make_port(), await case.make_volume(imageRef=case.image)
        group = (
            await case.call("POST", f"{NETWORK}/security-groups", json={"security_group": {"name": "g"}})
        ).json()["security_group"]
        key = (
            await case.call(
                "POST", f"{COMPUTE}/os-keypairs", json={"keypair": {"name": "k", "public_key": KEY}}
            )
        ).json()
        await case.settle()
        case.remember()
        usage = await case.usage()
        await case.fault("guest.ensure", count=None, message="no such machine type")
        server = await case.create(
            image=None,
            block_device_mapping_v2=[
                {"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"},
                {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "delete_on_termination": True},
            ],
            networks=[{"port": port["id"]}, {"uuid": case.network2["id"]}],
            security_groups=[{"name": group["id"]}],
            key_name=key["keypair"]["name"],
        )  # fmt: skip
        shown = await case.server_is(server, "ERROR")
        await case.release()
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        assert "no such machine type" in shown["fault"]["message"]
        # Nothing of it is on the host, and the volume was never given to it for good.
        assert case.things(H1) == []
        assert case.exports() == []
        assert await case.allocations(server) == {}
        assert await case.ports_of(server) == []
        free = await case.port(port["id"])
        assert (free["device_id"], free["binding:host_id"]) == ("", "")
        assert (await case.volume(volume))["status"] in ("reserved", "available")
        await case.delete(server)
        # At once: not only when everything has settled.
        assert (await case.volume(volume))["status"] == "available"
        assert (await case.port(port["id"]))["device_id"] == ""
        assert await case.usage() == usage
        await case.clean()
        await case.call("DELETE", f"{NETWORK}/security-groups/{group['id']}", 204)


async def test_with_a_local_disk_and_no_volume(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, build_attempts=1) as case:
        await case.fault("guest.ensure", count=None)
        server = await case.create(networks=[{"uuid": case.network["id"]}])
        await case.server_is(server, "ERROR")
        await case.release()
        assert case.things(H1) == []
        await case.delete(server)
        await case.clean()


async def test_a_healthy_server_that_was_reset_to_error_is_deleted_through_its_host(
    db: Database, directory: Path
) -> None:
    async with stage(db, directory, hosts=1) as case:
        server = await case.boot(networks=[{"uuid": case.network["id"]}])
        await case.act(server, "os-resetState", {"state": "error"}, as_="admin")
        shown = await case.server_is(server, "ERROR")
        assert shown["OS-EXT-SRV-ATTR:host"] == H1
        assert case.things(H1) != []
        await case.delete(server)
        assert case.things(H1) == []
        await case.clean()


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGfGm8yCZpAyO0Ar1VtnfN2VbEYSM6Cm1bDHTHVmjHJM k"
