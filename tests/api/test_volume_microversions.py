"""What each block storage microversion changed, as the API reference and its history of versions tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cloud import TestCloud, running_cloud, test_cloud
from tests.tenants import VOLUME, Tenant, furnish
from tests.versions import Changes, Routes, Shape, at, edges, within, wrong_routes, wrong_shapes

from cumulet.api.volume import AREA
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

ROOT = "/volume/v3/"
#: The id of nothing.
NONE = "5f1a6f52-62b3-4a5e-8a0b-3d6c9ac20a5b"

_VOLUME = (
    "attachments availability_zone bootable consistencygroup_id created_at description encrypted id links metadata "
    "multiattach name os-vol-tenant-attr:tenant_id replication_status size snapshot_id source_volid status updated_at "
    "user_id volume_type"
)
_VOLUME_CHANGES: Changes = {
    13: ("group_id", ""), 48: ("service_uuid shared_targets", ""), 63: ("volume_type_id", ""),
    65: ("consumes_quota", ""),
}  # fmt: skip
_ADMIN = (
    "migration_status os-vol-host-attr:host os-vol-mig-status-attr:migstat os-vol-mig-status-attr:name_id"
)
_SNAPSHOT = "created_at description id metadata name size status updated_at volume_id"
_PROGRESS = "os-extended-snapshot-attributes:progress os-extended-snapshot-attributes:project_id"
_SNAPSHOT_CHANGES: Changes = {
    14: ("group_snapshot_id", ""), 41: ("user_id", ""), 65: ("consumes_quota", ""),
}  # fmt: skip
_BACKUP = (
    "availability_zone container created_at data_timestamp description fail_reason has_dependent_backups id "
    "is_incremental links name object_count size snapshot_id status updated_at volume_id"
)
_TRANSFER_CHANGES: Changes = {
    55: ("no_snapshots", ""), 57: ("accepted destination_project_id source_project_id", ""),
}  # fmt: skip
_GROUP = "availability_zone created_at description group_type id name status volume_types"
_GROUP_CHANGES: Changes = {14: ("group_snapshot_id source_group_id", ""), 38: ("replication_status", "")}

SHAPES: Mapping[str, Shape] = {
    "a volume": Shape("demo", "volumes/{volume}", "volume", _VOLUME, _VOLUME_CHANGES),
    "an administrator's volume": Shape(
        "admin", "volumes/{attached_volume}", "volume", f"{_VOLUME} {_ADMIN}",
        {**_VOLUME_CHANGES, 21: ("provider_id", ""), 61: ("cluster_name", "")},
    ),
    "volumes in detail": Shape("demo", "volumes/detail", "volumes 0", _VOLUME, _VOLUME_CHANGES),
    "volumes": Shape("demo", "volumes", "volumes 0", "id links name"),
    "a summary": Shape(
        "demo", "volumes/summary", "volume-summary", "total_count total_size", {36: ("metadata", "")}, first=12,
    ),
    "a snapshot": Shape(
        "demo", "snapshots/{snapshot}", "snapshot", f"{_SNAPSHOT} {_PROGRESS}", _SNAPSHOT_CHANGES
    ),
    "snapshots in detail": Shape(
        "demo", "snapshots/detail", "snapshots 0", f"{_SNAPSHOT} {_PROGRESS}", _SNAPSHOT_CHANGES
    ),
    "snapshots": Shape("demo", "snapshots", "snapshots 0", _SNAPSHOT),
    "backups in detail": Shape(
        "demo", "backups/detail", "backups 0", _BACKUP, {43: ("metadata", "")}
    ),
    "an administrator's backups": Shape(
        "admin", "backups/detail?all_tenants=1", "backups 0", _BACKUP,
        {18: ("os-backup-project-attr:project_id", ""), 43: ("metadata", ""), 56: ("user_id", "")},
    ),
    "attachments": Shape(
        "demo", "attachments", "attachments 0", "id instance status volume_id", first=27
    ),
    "an attachment": Shape(
        "demo", "attachments/{attachment}", "attachment",
        "attach_mode attached_at connection_info detached_at id instance status volume_id", first=27,
    ),
    "a group": Shape("demo", "groups/{group}", "group", _GROUP, _GROUP_CHANGES, first=13),
    "a group with its volumes": Shape(
        "demo", "groups/{group}?list_volume=true", "group", _GROUP, {**_GROUP_CHANGES, 25: ("volumes", "")},
        first=13,
    ),
    "a group's snapshot": Shape(
        "demo", "group_snapshots/{group_snapshot}", "group_snapshot",
        "created_at description group_id group_type_id id name status", first=14,
    ),
    "a kind of groups": Shape(
        "demo", "group_types/{group_type}", "group_type", "description id is_public name", first=11
    ),
    "an administrator's kind of groups": Shape(
        "admin", "group_types/{group_type}", "group_type", "description group_specs id is_public name", first=11
    ),
    "a message": Shape(
        "demo", "messages/{message}", "message",
        "created_at event_id guaranteed_until id links message_level request_id resource_type resource_uuid "
        "user_message", first=3,
    ),
    "a transfer": Shape(
        "demo", "volume-transfers/{transfer}", "transfer", "created_at id links name volume_id", _TRANSFER_CHANGES
    ),
    "a transfer by its old name": Shape(
        "demo", "os-volume-transfer/{transfer}", "transfer", "created_at id links name volume_id",
        _TRANSFER_CHANGES,
    ),
    "services": Shape(
        "admin", "os-services?binary=cinder-volume", "services 0",
        "active_backend_id binary disabled_reason frozen host replication_status state status updated_at zone",
        {7: ("cluster", ""), 49: ("backend_state", "")},
    ),
    "types that are taken by default": Shape("admin", "default-types", "", "default_types", first=62),
    "what lists filter by": Shape("demo", "resource_filters", "resource_filters 0", "filters resource", first=33),
}  # fmt: skip

ROUTES: Routes = {
    ("POST", f"volumes/{NONE}/action", "revert"): (40, 0),
    ("POST", f"volumes/{NONE}/action", "os-reimage"): (68, 0),
    ("POST", f"volumes/{NONE}/action", "os-extend_volume_completion"): (71, 0),
    ("GET", "messages", ""): (3, 0),
    ("DELETE", f"messages/{NONE}", ""): (3, 0),
    ("GET", "clusters", ""): (7, 0),
    ("GET", "manageable_volumes", ""): (8, 0),
    ("POST", "manageable_volumes", ""): (8, 0),
    ("GET", "manageable_snapshots", ""): (8, 0),
    ("PUT", f"backups/{NONE}", ""): (9, 0),
    ("GET", "group_types", ""): (11, 0),
    ("POST", "group_types", ""): (11, 0),
    ("GET", f"group_types/{NONE}/group_specs", ""): (11, 0),
    ("GET", "groups", ""): (13, 0),
    ("POST", "groups", ""): (13, 0),
    ("PUT", f"groups/{NONE}", ""): (13, 0),
    ("POST", f"groups/{NONE}/action", "delete"): (13, 0),
    ("POST", f"groups/{NONE}/action", "reset_status"): (20, 0),
    ("POST", f"groups/{NONE}/action", "enable_replication"): (38, 0),
    ("GET", "group_snapshots", ""): (14, 0),
    ("POST", "group_snapshots", ""): (14, 0),
    ("DELETE", f"group_snapshots/{NONE}", ""): (14, 0),
    ("POST", f"group_snapshots/{NONE}/action", "reset_status"): (19, 0),
    ("POST", "workers/cleanup", ""): (24, 0),
    ("GET", "attachments", ""): (27, 0),
    ("POST", "attachments", ""): (27, 0),
    ("DELETE", f"attachments/{NONE}", ""): (27, 0),
    ("POST", f"attachments/{NONE}/action", "os-complete"): (44, 0),
    ("PUT", "os-services/set-log", ""): (32, 0),
    ("PUT", "os-services/get-log", ""): (32, 0),
    ("GET", "resource_filters", ""): (33, 0),
    ("GET", "default-types", ""): (62, 0),
    ("PUT", f"default-types/{NONE}", ""): (62, 0),
}

#: What a body may have since a version: (path, noun, field, value).
FIELDS: Mapping[int, tuple[str, str, str, Any]] = {
    13: ("volumes", "volume", "group_id", NONE),
    43: ("backups", "backup", "metadata", {"a": "b"}),
    47: ("volumes", "volume", "backup_id", NONE),
    51: ("backups", "backup", "availability_zone", "nova"),
    54: ("attachments", "attachment", "mode", "ro"),
    55: ("volume-transfers", "transfer", "no_snapshots", True),
}
_LEAST: Mapping[str, dict[str, Any]] = {
    "volume": {"size": 1},
    "backup": {"volume_id": NONE},
    "attachment": {"volume_uuid": NONE, "instance_uuid": NONE},
    "transfer": {"volume_id": NONE},
}


@pytest.fixture
async def tenant(db: SqliteDatabase | PostgresDatabase, tmp_path: Path) -> AsyncIterator[Tenant]:
    """One of everything."""
    async with running_cloud(db, tmp_path) as cloud:
        tenant = await furnish(cloud, "demo", 1)
        await tenant.make("backup", VOLUME, "backups", "backup", volume_id=tenant.things["volume"])
        yield tenant


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def test_every_noun_has_the_shape_of_every_version(tenant: Tenant) -> None:
    wrong = await wrong_shapes(tenant.cloud, AREA, ROOT, SHAPES, tenant.things)
    assert not wrong, "\n".join(wrong)


async def test_routes_came_and_went(cloud: TestCloud) -> None:
    wrong = await wrong_routes(cloud, AREA, ROOT, ROUTES)
    assert not wrong, "\n".join(wrong)


async def test_fields_of_bodies_came(cloud: TestCloud) -> None:
    for first, (path, noun, field, value) in FIELDS.items():
        for minor in edges(first, 0, 0):
            body = {noun: {**_LEAST[noun], field: value}}
            answer = await cloud.post(f"{ROOT}{path}", json=body, version=at(AREA, minor))
            if noun == "volume":  # what it does not know it ignores; what it knows is not there
                noticed = answer.status_code >= 400
            else:
                noticed = not (answer.status_code == 400 and field in answer.text)
            assert noticed is within(minor, first, 0), (field, minor, answer.text)
    # Since 3.66 a snapshot's force is always true; to ask for the contrary is refused.
    for minor, force, status in ((65, False, 404), (65, True, 404), (66, True, 404), (66, False, 400)):
        body = {"snapshot": {"volume_id": NONE, "force": force}}
        answer = await cloud.post(f"{ROOT}snapshots", json=body, version=at(AREA, minor))
        assert answer.status_code == status, (minor, force, answer.text)


async def test_filters_and_the_range_of_versions(cloud: TestCloud) -> None:
    for query, minor, status in (
        ("volumes?surprise=1", 30, 200), ("volumes?surprise=1", 31, 400), ("volumes?with_count=true", 44, 400),
        ("volumes?with_count=true", 45, 200), ("volumes/detail?glance_metadata={}", 3, 200),
        ("types?extra_specs={}", 52, 200), ("volumes", 71, 200), ("volumes", 72, 406),
    ):  # fmt: skip
        answer = await cloud.get(f"{ROOT}{query}", version=at(AREA, minor))
        assert answer.status_code == status, (query, minor)
    newest = await cloud.get(f"{ROOT}volumes", version="volume latest")
    assert newest.headers["openstack-api-version"] == "volume 3.71"
