"""openstacksdk's cloud layer, as programs use it: names in, waiting, everything found again at once."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystoneauth1.exceptions
import openstack
import openstack.exceptions
import pytest

from tests.contract.clients import DEMO, until
from tests.process.cumulet import Cloud

# The SDK warns of itself, and takes an error in its polls for a server that is not there yet.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def sdk(up: Cloud) -> Iterator[Any]:
    """A connection by the clouds.yaml that the cloud wrote."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("OS_")]:
            patch.delenv(name)
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(up.directory / "clouds.yaml"))
        connection = openstack.connect(cloud=DEMO)
        yield connection
        connection.close()


def kinds(server: Any) -> list[tuple[str, str]]:
    """The server's addresses with their types."""
    return [(one["addr"], one["OS-EXT-IPS:type"]) for ones in server.addresses.values() for one in ones]


def test_a_server_with_a_floating_address(sdk: Any) -> None:
    server = sdk.create_server(
        "web", image="tiny", flavor="m1.tiny", network="private", wait=True, auto_ip=True, timeout=60,
        meta={"role": "web"}, userdata="#!/bin/sh\n",
    )  # fmt: skip
    assert server.status == "ACTIVE"
    # wait_for_server ends only when the floating address is among the server's own.
    fixed, floating = sorted(address for address, _ in kinds(server))
    assert dict(kinds(server)) == {fixed: "fixed", floating: "floating"}
    shown = sdk.get_server("web")
    assert (shown.public_v4, shown.private_v4, shown.interface_ip) == (floating, fixed, floating)
    assert [(one.name, one.status, dict(kinds(one))) for one in sdk.list_servers()] == [
        ("web", "ACTIVE", {fixed: "fixed", floating: "floating"})
    ]
    assert sdk.list_servers(filters={"name": "no such"}) == []
    assert sdk.search_servers("we*")[0].metadata == {"role": "web"}
    (mine,) = sdk.list_floating_ips()
    assert (mine.floating_ip_address, mine.fixed_ip_address, mine.status) == (floating, fixed, "ACTIVE")
    assert "login:" in until(lambda: sdk.get_server_console("web"), "the console")

    volume = sdk.create_volume(1, name="data", wait=True, timeout=60)
    assert volume.status == "available"
    attachment = sdk.attach_volume(server, volume, wait=True, timeout=60)
    assert attachment.device == "/dev/vdb"
    attached = sdk.get_volume("data")
    assert (attached.status, attached.attachments[0]["server_id"]) == ("in-use", server.id)
    assert sdk.get_volume_attach_device(attached, server.id) == "/dev/vdb"
    sdk.detach_volume(server, attached, wait=True, timeout=60)
    assert sdk.get_volume("data").status == "available"
    assert sdk.delete_volume("data", wait=True, timeout=60)

    assert sdk.delete_server("web", wait=True, timeout=60, delete_ips=True)
    assert sdk.get_server("web") is None
    assert sdk.list_floating_ips() == []
    assert not sdk.delete_server("web", wait=True)
    assert [port.device_owner for port in sdk.list_ports() if port.device_owner.startswith("compute")] == []


def test_images(sdk: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(os.urandom(2 << 20))
    image = sdk.create_image(
        "i", filename=str(disk), disk_format="raw", container_format="bare", wait=True, validate_checksum=True,
        meta={"min_disk": 1}, os_distro="debian",
    )  # fmt: skip
    assert (image.status, image.size, image.min_disk) == ("active", 2 << 20, 1)
    # The same again is found by its checksums and not uploaded twice.
    again = sdk.create_image(
        "i", filename=str(disk), disk_format="raw", container_format="bare", wait=True, validate_checksum=True
    )
    assert again.id == image.id
    sdk.download_image("i", output_path=str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == disk.read_bytes()
    sdk.update_image_properties(image, os_version="13")
    assert sdk.get_image("i").os_distro == "debian"
    assert sdk.delete_image("i", wait=True)
    assert sdk.get_image("i") is None


def test_a_project_is_cleaned(sdk: Any) -> None:
    """A dry run finds everything of the project, and the real one leaves nothing of it."""
    network = sdk.create_network("n")
    subnet = sdk.create_subnet("n", cidr="192.168.9.0/24", subnet_name="sn")
    router = sdk.create_router("r", ext_gateway_net_id=sdk.get_network("public").id)
    sdk.add_router_interface(router, subnet_id=subnet.id)
    port = sdk.create_port(network.id, name="p")
    address = sdk.create_floating_ip(network="public")
    group = sdk.create_security_group("g", "d")
    sdk.create_security_group_rule("g", protocol="tcp", port_range_min=22, port_range_max=22)
    volume = sdk.create_volume(1, name="v", wait=True, timeout=60)
    server = sdk.create_server(
        "s", image="tiny", flavor="m1.tiny", network="n", wait=True, auto_ip=False, timeout=60
    )
    made = {network.id, subnet.id, router.id, port.id, address.id, volume.id, server.id}

    def clean(**more: Any) -> set[str]:
        found: queue.Queue[Any] = queue.Queue()
        sdk.project_cleanup(status_queue=found, filters={"created_at": server.created_at[:4]}, **more)
        return {found.get().id for _ in range(found.qsize())}

    assert made <= clean(dry_run=True, resource_evaluation_fn=lambda one, *_: True)
    assert sdk.get_server("s").id == server.id
    # What the cloud was born with stays.
    own = {"private", "private-subnet", "router", "default"}
    clean(dry_run=False, wait_timeout=60, resource_evaluation_fn=lambda one, *_: one.name not in own)
    for left in (sdk.list_servers(), sdk.list_volumes(), sdk.list_floating_ips()):
        assert left == []
    assert {one.name for one in sdk.list_networks()} == {"private", "public"}
    assert sdk.get_router("r") is None
    sdk.delete_security_group(group.id)
    assert [one.name for one in sdk.list_security_groups()] == ["default"]


def test_what_a_program_asks_first(sdk: Any) -> None:
    """Lists without details, limits, zones; and a service that this cloud does not have."""
    assert {"m1.tiny", "m1.small"} <= {flavor.name for flavor in sdk.list_flavors()}
    assert sdk.get_flavor_by_ram(500).name == "m1.tiny"
    assert sdk.list_availability_zone_names() == ["nova"]
    assert sdk.get_compute_limits().instances == 10
    assert sdk.get_volume_limits()["absolute"]["maxTotalVolumes"] == 10
    assert [network.name for network in sdk.get_external_ipv4_networks()] == ["public"]
    assert "private" in [network.name for network in sdk.get_internal_ipv4_networks()]
    assert sdk.current_project.name == "demo"
    assert not sdk.has_service("load-balancer")
    with pytest.raises(openstack.exceptions.SDKException, match="load-balancer"):
        list(sdk.load_balancer.load_balancers())
    key = sdk.create_keypair("k")
    assert "PRIVATE KEY" in key.private_key
    assert sdk.delete_keypair("k")
    with pytest.raises(openstack.exceptions.BadRequestException, match="flavorRef"):
        sdk.compute.create_server(name="s")


def test_an_application_credential(sdk: Any, up: Cloud) -> None:
    """Made by a program for another one, which sees what its maker does and no more."""
    made = sdk.identity.create_application_credential(
        sdk.current_user_id, "robot", roles=[{"name": "member"}]
    )
    auth = {
        "auth_url": f"{up.url}/identity/v3", "application_credential_id": made.id,
        "application_credential_secret": made.secret,
    }  # fmt: skip
    with openstack.connect(
        load_yaml_config=False, auth_type="v3applicationcredential", auth=auth, region_name="RegionOne"
    ) as robot:
        assert robot.current_project_id == sdk.current_project_id
        server = robot.create_server("r", image="tiny", flavor="m1.tiny", network="private", auto_ip=False)
        assert sdk.get_server("r").id == server.id
        assert robot.delete_server("r", wait=True, timeout=60)
        with pytest.raises(openstack.exceptions.ForbiddenException):
            robot.identity.create_application_credential(robot.current_user_id, "more")
    sdk.identity.delete_application_credential(sdk.current_user_id, made.id)
    with (
        openstack.connect(
            load_yaml_config=False, auth_type="v3applicationcredential", auth=auth, region_name="RegionOne"
        ) as robot,
        pytest.raises(keystoneauth1.exceptions.Unauthorized),
    ):
        robot.list_servers()
