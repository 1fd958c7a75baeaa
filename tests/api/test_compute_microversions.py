"""What each compute microversion changed, as the API reference and its history of versions tell it.

Every noun is shown at every version at which its shape changes and at the one before; every route that came or went is
asked at the last version without it and the first with it; and so is every field that a body may have since a version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cloud import running_cloud, test_cloud
from tests.tenants import COMPUTE, KEY, Tenant, furnish
from tests.versions import Changes, Routes, Shape, at, edges, within, wrong_routes, wrong_shapes

from cumulet.api.compute import AREA
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

ROOT = "/compute/v2.1/"

_SERVER = (
    "OS-DCF:diskConfig OS-EXT-AZ:availability_zone OS-EXT-STS:power_state OS-EXT-STS:task_state OS-EXT-STS:vm_state "
    "OS-SRV-USG:launched_at OS-SRV-USG:terminated_at accessIPv4 accessIPv6 addresses config_drive created flavor hostId "
    "id image key_name links metadata name os-extended-volumes:volumes_attached progress security_groups status "
    "tenant_id updated user_id"
)
_ATTRIBUTES = "OS-EXT-SRV-ATTR:host OS-EXT-SRV-ATTR:hypervisor_hostname OS-EXT-SRV-ATTR:instance_name"
_MORE_ATTRIBUTES = (
    "OS-EXT-SRV-ATTR:hostname OS-EXT-SRV-ATTR:kernel_id OS-EXT-SRV-ATTR:launch_index OS-EXT-SRV-ATTR:ramdisk_id "
    "OS-EXT-SRV-ATTR:reservation_id OS-EXT-SRV-ATTR:root_device_name OS-EXT-SRV-ATTR:user_data"
)
_SERVER_CHANGES: Changes = {
    9: ("locked", ""), 19: ("description", ""), 26: ("tags", ""), 63: ("trusted_image_certificates", ""),
    73: ("locked_reason", ""), 96: ("pinned_availability_zone", ""), 100: ("scheduler_hints", ""),
}  # fmt: skip
_PROXY_QUOTAS = "fixed_ips floating_ips security_group_rules security_groups"
_FILE_QUOTAS = "injected_file_content_bytes injected_file_path_bytes injected_files"
_QUOTAS = "cores id instances key_pairs metadata_items ram"
_USED = (
    "cpu_info current_workload disk_available_least free_disk_gb free_ram_mb local_gb local_gb_used memory_mb "
    "memory_mb_used running_vms vcpus vcpus_used"
)

SHAPES: Mapping[str, Shape] = {
    "a server": Shape(
        "demo", "servers/{server}", "server", _SERVER,
        {**_SERVER_CHANGES, 71: ("server_groups", ""), 90: ("OS-EXT-SRV-ATTR:hostname", "")},
    ),
    "an administrator's server": Shape(
        "admin", "servers/{server}", "server", f"{_SERVER} {_ATTRIBUTES}",
        {**_SERVER_CHANGES, 3: (_MORE_ATTRIBUTES, ""), 16: ("host_status", ""), 71: ("server_groups", "")},
    ),
    "servers in detail": Shape(
        "demo", "servers/detail", "servers 0", _SERVER,
        {**_SERVER_CHANGES, 90: ("OS-EXT-SRV-ATTR:hostname", "")},
    ),
    "servers": Shape(
        "demo", "servers", "servers 0", "id links name", {}),
    "a server's flavor": Shape(
        "demo", "servers/{server}", "server flavor", "id links",
        {47: ("disk ephemeral extra_specs original_name ram swap vcpus", "id links")},
    ),
    "a server's image": Shape(
        "demo", "servers/{server}", "server image", "id links", {98: ("properties", "")}),
    "a server's volumes": Shape(
        "demo", "servers/{server}", "server os-extended-volumes:volumes_attached 0", "id",
        {3: ("delete_on_termination", "")},
    ),
    "a flavor": Shape(
        "demo", "flavors/{flavor}", "flavor",
        "OS-FLV-DISABLED:disabled OS-FLV-EXT-DATA:ephemeral disk id links name os-flavor-access:is_public ram "
        "rxtx_factor swap vcpus",
        {55: ("description", ""), 61: ("extra_specs", ""), 102: ("", "OS-FLV-DISABLED:disabled rxtx_factor")},
    ),
    "flavors": Shape(
        "demo", "flavors", "flavors 0", "id links name", {55: ("description", "")}),
    "a key pair": Shape(
        "demo", "os-keypairs/{keypair}", "keypair",
        "created_at deleted deleted_at fingerprint id name public_key updated_at user_id", {2: ("type", "")},
    ),
    "key pairs": Shape(
        "demo", "os-keypairs", "keypairs 0 keypair", "fingerprint name public_key", {2: ("type", "")}),
    "a page of key pairs": Shape(
        "demo", "os-keypairs?limit=1", "", "keypairs", {35: ("keypairs_links", "")}),
    "a hypervisor": Shape(
        "admin", "os-hypervisors/detail", "hypervisors 0",
        f"host_ip hypervisor_hostname hypervisor_type hypervisor_version id service state status {_USED}",
        {88: ("uptime", _USED)},
    ),
    "a page of hypervisors": Shape(
        "admin", "os-hypervisors?limit=1", "", "hypervisors", {33: ("hypervisors_links", "")},
    ),
    "services": Shape(
        "admin", "os-services", "services 0", "binary disabled_reason host id state status updated_at zone",
        {11: ("forced_down", "")},
    ),
    "quotas": Shape(
        "admin", "os-quota-sets/{project}", "quota_set",
        f"{_QUOTAS} {_PROXY_QUOTAS} {_FILE_QUOTAS} server_group_members server_groups",
        {36: ("", _PROXY_QUOTAS), 57: ("", _FILE_QUOTAS)},
    ),
    "quotas of a class": Shape(
        "admin", "os-quota-class-sets/default", "quota_class_set", f"{_QUOTAS} {_PROXY_QUOTAS} {_FILE_QUOTAS}",
        {50: ("server_group_members server_groups", _PROXY_QUOTAS), 57: ("", _FILE_QUOTAS)},
    ),
    "limits": Shape(
        "demo", "limits", "limits absolute",
        "maxImageMeta maxPersonality maxPersonalitySize maxSecurityGroupRules maxSecurityGroups maxServerGroupMembers "
        "maxServerGroups maxServerMeta maxTotalCores maxTotalFloatingIps maxTotalInstances maxTotalKeypairs "
        "maxTotalRAMSize totalCoresUsed totalFloatingIpsUsed totalInstancesUsed totalRAMUsed totalSecurityGroupsUsed "
        "totalServerGroupsUsed",
        {
            36: ("", "maxSecurityGroupRules maxSecurityGroups maxTotalFloatingIps totalFloatingIpsUsed totalSecurityGroupsUsed"),
            39: ("", "maxImageMeta"), 57: ("", "maxPersonality maxPersonalitySize"),
        },
    ),
    "a group of servers": Shape(
        "demo", "os-server-groups/{server_group}", "server_group", "id members metadata name policies",
        {13: ("project_id user_id", ""), 64: ("policy rules", "metadata policies")},
    ),
    "actions": Shape(
        "demo", "servers/{server}/os-instance-actions", "instanceActions 0",
        "action instance_uuid message project_id request_id start_time user_id", {58: ("updated_at", "")},
    ),
    "an action": Shape(
        "demo", "servers/{server}/os-instance-actions/{request}", "instanceAction",
        "action instance_uuid message project_id request_id start_time user_id",
        {51: ("events", ""), 58: ("updated_at", "")},
    ),
    "an event": Shape(
        "admin", "servers/{server}/os-instance-actions/{request}", "instanceAction events 0",
        "event finish_time result start_time traceback", {62: ("host hostId", ""), 84: ("details", "")},
    ),
    "an event for a user": Shape(
        "demo", "servers/{server}/os-instance-actions/{request}", "instanceAction events 0", "",
        {51: ("event finish_time result start_time", ""), 62: ("hostId", "")},
    ),
    "attached volumes": Shape(
        "demo", "servers/{server}/os-volume_attachments", "volumeAttachments 0", "device id serverId volumeId",
        {70: ("tag", ""), 79: ("delete_on_termination", ""), 89: ("attachment_id bdm_uuid", "id")},
    ),
    "an interface": Shape(
        "demo", "servers/{server}/os-interface", "interfaceAttachments 0",
        "fixed_ips mac_addr net_id port_id port_state", {70: ("tag", "")},
    ),
    "an aggregate": Shape(
        "admin", "os-aggregates", "aggregates 0",
        "availability_zone created_at deleted deleted_at hosts id metadata name updated_at", {41: ("uuid", "")},
    ),
    "usage": Shape(
        "admin", "os-simple-tenant-usage?limit=1", "", "tenant_usages", {40: ("tenant_usages_links", "")},
    ),
    "diagnostics": Shape(
        "admin", "servers/{server}/diagnostics", "", "memory",
        {
            48: (
                "config_drive cpu_details disk_details driver hypervisor hypervisor_os memory_details nic_details "
                "num_cpus num_disks num_nics state uptime", "memory",
            ),
        },
    ),
}  # fmt: skip

#: The id of nothing.
NONE = "5f1a6f52-62b3-4a5e-8a0b-3d6c9ac20a5b"
ROUTES: Routes = {
    ("POST", f"servers/{NONE}/action", "trigger_crash_dump"): (17, 0),
    ("POST", f"servers/{NONE}/remote-consoles", ""): (6, 0),
    ("GET", f"servers/{NONE}/migrations", ""): (23, 0),
    ("DELETE", f"servers/{NONE}/migrations/1", ""): (24, 0),
    ("POST", f"servers/{NONE}/migrations/1/action", "force_complete"): (22, 0),
    ("GET", f"servers/{NONE}/tags", ""): (26, 0),
    ("PUT", f"servers/{NONE}/tags", ""): (26, 0),
    ("DELETE", f"servers/{NONE}/tags", ""): (26, 0),
    ("GET", f"servers/{NONE}/tags/tag", ""): (26, 0),
    ("PUT", f"servers/{NONE}/tags/tag", ""): (26, 0),
    ("GET", f"servers/{NONE}/topology", ""): (78, 0),
    ("PUT", f"flavors/{NONE}", ""): (55, 0),
    ("GET", "images", ""): (1, 35),
    ("GET", f"images/{NONE}", ""): (1, 35),
    ("GET", f"images/{NONE}/metadata", ""): (1, 38),
    ("PUT", f"images/{NONE}/metadata/key", ""): (1, 38),
    ("GET", "os-networks", ""): (1, 35),
    ("GET", "os-tenant-networks", ""): (1, 35),
    ("GET", "os-floating-ips", ""): (1, 35),
    ("POST", "os-floating-ips", ""): (1, 35),
    ("GET", "os-security-groups", ""): (1, 35),
    ("POST", "os-security-group-rules", ""): (1, 35),
    ("GET", "os-volumes", ""): (1, 35),
    ("GET", "os-volumes/detail", ""): (1, 35),
    ("GET", "os-snapshots", ""): (1, 35),
    ("GET", "os-hosts", ""): (1, 42),
    ("GET", "os-hosts/h1", ""): (1, 42),
    ("POST", f"servers/{NONE}/action", "addFloatingIp"): (1, 43),
    ("POST", f"servers/{NONE}/action", "removeFloatingIp"): (1, 43),
    ("POST", f"servers/{NONE}/action", "addFixedIp"): (1, 43),
    ("POST", f"servers/{NONE}/action", "removeFixedIp"): (1, 43),
    ("GET", f"os-hypervisors/{NONE}/search", ""): (1, 52),
    ("GET", f"os-hypervisors/{NONE}/servers", ""): (1, 52),
    ("GET", "os-hypervisors/statistics", ""): (1, 87),
    ("GET", f"os-hypervisors/{NONE}/uptime", ""): (1, 87),
}

_MIGRATE = {"host": None, "block_migration": False}
#: Fields of bodies that came or went: (path, action, the least body that has no such field, field and value, the first
#: minor version, the last or 0).
FIELDS: tuple[tuple[str, str, dict[str, Any], str, Any, int, int], ...] = (
    ("rebuild", "", {"imageRef": NONE}, "description", "d", 19, 0),
    ("rebuild", "", {"imageRef": NONE}, "key_name", None, 54, 0),
    ("rebuild", "", {"imageRef": NONE}, "personality", [], 1, 56),
    ("rebuild", "", {"imageRef": NONE}, "user_data", None, 57, 0),
    ("rebuild", "", {"imageRef": NONE}, "trusted_image_certificates", None, 63, 0),
    ("rebuild", "", {"imageRef": NONE}, "hostname", "host-1", 90, 0),
    ("evacuate", "", {"host": "h1"}, "force", True, 29, 67),
    ("evacuate", "", {}, "onSharedStorage", False, 1, 13),
    ("os-migrateLive", "", _MIGRATE, "disk_over_commit", False, 1, 24),
    ("os-migrateLive", "", {"host": "h1", "block_migration": "auto"}, "force", True, 30, 67),
    ("", "servers/{id}/os-volume_attachments volumeAttachment", {"volumeId": NONE}, "tag", "t", 49, 0),
    ("", "servers/{id}/os-volume_attachments volumeAttachment", {"volumeId": NONE}, "delete_on_termination", True, 79, 0),
    ("", "servers/{id}/os-interface interfaceAttachment", {}, "tag", "t", 49, 0),
    ("", "flavors flavor", {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}, "description", "d", 55, 0),
    ("", "os-keypairs keypair", {"name": "k", "public_key": KEY}, "type", "ssh", 2, 0),
    ("", "os-keypairs keypair", {"name": "l", "public_key": KEY}, "user_id", "nobody", 10, 0),
    ("", "os-server-groups server_group", {"name": "g"}, "policies", ["affinity"], 1, 63),
    ("", "os-server-groups server_group", {"name": "g"}, "policy", "affinity", 64, 0),
)  # fmt: skip
#: The same of the body of POST /servers.
CREATE: Mapping[str, tuple[Any, int, int]] = {
    "description": ("d", 19, 0),
    "personality": ([], 1, 56),
    "tags": (["a"], 52, 0),
    "trusted_image_certificates": (["a"], 63, 0),
    "host": ("h1", 74, 0),
    "hypervisor_hostname": ("h1", 74, 0),
    "hostname": ("host-1", 90, 0),
}


@pytest.fixture
async def tenant(db: SqliteDatabase | PostgresDatabase, tmp_path: Path) -> AsyncIterator[Tenant]:
    """One of everything."""
    async with running_cloud(db, tmp_path) as cloud:
        tenant = await furnish(cloud, "demo", 1)
        await tenant.ask("POST", COMPUTE, "os-aggregates", {"aggregate": {"name": "a"}}, as_="admin")
        yield tenant


async def test_every_noun_has_the_shape_of_every_version(tenant: Tenant) -> None:
    wrong = await wrong_shapes(tenant.cloud, AREA, ROOT, SHAPES, tenant.things)
    assert not wrong, "\n".join(wrong)
    await _values(tenant)


async def _values(tenant: Tenant) -> None:
    """What a field holds changed too."""

    async def show(path: str, minor: int, as_: str = "admin") -> Any:
        url = f"{ROOT}{path.format_map(tenant.things)}"
        return (await tenant.cloud.get(url, as_=as_, version=f"compute 2.{minor}")).json()

    for minor in (27, 28):
        hypervisor = (await show("os-hypervisors/detail", minor))["hypervisors"][0]
        assert isinstance(hypervisor["cpu_info"], str if minor < 28 else dict)
    for minor in (52, 53):
        for path, noun in (("os-hypervisors", "hypervisors"), ("os-services", "services")):
            assert isinstance((await show(path, minor))[noun][0]["id"], int if minor < 53 else str)
    for minor, swap in ((74, ""), (75, 0)):
        assert (await show("flavors/{flavor}", minor))["flavor"]["swap"] == swap
    pattern = await show("os-hypervisors?hypervisor_hostname_pattern=h", 53)
    assert len(pattern["hypervisors"]) == 2
    for minor in (74, 75):
        changed = await tenant.cloud.put(
            f"{ROOT}servers/{tenant.things['server']}",
            json={"server": {"name": "s"}},
            version=f"compute 2.{minor}",
        )
        assert ("OS-EXT-STS:vm_state" in changed.json()["server"]) is (minor == 75)


async def test_routes_came_and_went(db: SqliteDatabase | PostgresDatabase) -> None:
    async with test_cloud(db) as cloud:
        wrong = await wrong_routes(cloud, AREA, ROOT, ROUTES)
        assert not wrong, "\n".join(wrong)


async def test_fields_of_a_create_came_and_went(db: SqliteDatabase | PostgresDatabase) -> None:
    async with test_cloud(db) as cloud:
        image = (await cloud.post("/image/v2/images", as_="admin", json={"name": "i"})).json()["id"]
        for field, (value, first, last) in CREATE.items():
            for minor in edges(first, last, 1):
                server = {"name": "s", "flavorRef": "1", "imageRef": image, field: value}
                if minor >= 37:
                    server["networks"] = "none"
                answer = await cloud.post(
                    f"{ROOT}servers", as_="admin", json={"server": server}, version=f"compute 2.{minor}"
                )
                refused = answer.status_code == 400 and f"{field!r}" in answer.text.replace('"', "'")
                assert refused is not within(minor, first, last), (field, minor, answer.text)


async def test_fields_of_other_bodies_came_and_went(db: SqliteDatabase | PostgresDatabase) -> None:
    """Where one is not known, the answer is 400 and names it; where it is, the answer is about something else."""
    wrong = []
    async with test_cloud(db) as cloud:
        for action, place, least, field, value, first, last in FIELDS:
            path, noun = (f"servers/{NONE}/action", action) if action else place.split()
            for minor in edges(first, last, 1):
                answer = await cloud.post(
                    ROOT + path.replace("{id}", NONE), as_="admin", json={noun: {**least, field: value}},
                    version=at(AREA, minor),
                )  # fmt: skip
                refused = answer.status_code == 400 and field in answer.text
                if refused is within(minor, first, last):
                    wrong.append(f"{noun} {field} at 2.{minor}: {answer.status_code} {answer.text}")
    assert not wrong, "\n".join(wrong)
