"""Bodies of moves of servers. See the compute API reference, "Migrations", "Server migrations"."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from cumulet.wire.body import since


class Migration(Struct, frozen=True, kw_only=True):
    """A move in the list of all."""

    id: int
    uuid: Annotated[str, since(2, 59)]
    instance_uuid: str
    status: str
    migration_type: Annotated[str, since(2, 23)]
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None
    #: The address of the host; those here have none that would be of use to a client.
    dest_host: None = None
    #: Numbers of flavors, which have none here.
    old_instance_type_id: None = None
    new_instance_type_id: None = None
    created_at: str
    updated_at: str
    links: Annotated[list[dict[str, str]] | UnsetType, since(2, 23)] = UNSET
    user_id: Annotated[str, since(2, 80)]
    project_id: Annotated[str, since(2, 80)]


class ServerMigration(Struct, frozen=True, kw_only=True):
    """A live migration that is under way. How far it is no host tells."""

    id: int
    uuid: Annotated[str, since(2, 59)]
    server_uuid: str
    status: str
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None
    dest_host: None = None
    memory_total_bytes: None = None
    memory_processed_bytes: None = None
    memory_remaining_bytes: None = None
    disk_total_bytes: None = None
    disk_processed_bytes: None = None
    disk_remaining_bytes: None = None
    created_at: str
    updated_at: str
    user_id: Annotated[str, since(2, 80)]
    project_id: Annotated[str, since(2, 80)]
