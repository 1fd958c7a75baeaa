"""Servers and what belongs to them; flavors, key pairs, groups, aggregates, quotas."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

flavors = table(
    "flavors",
    #: Our own id; ``flavorid`` is the one that users see and choose.
    key(),
    text("flavorid"),
    text("name"),
    integer("vcpus"),
    integer("ram"),
    integer("disk"),
    integer("ephemeral", 0),
    integer("swap", 0),
    sa.Column("rxtx_factor", sa.Double, nullable=False, server_default=sa.text("1.0")),
    flag("is_public", default=True),
    flag("disabled"),
    text("description", null=True),
    document("extra_specs"),
    moment("created_at"),
    sa.UniqueConstraint("flavorid"),
    sa.UniqueConstraint("name"),
)

flavor_access = table(
    "flavor_access",
    ref("flavor_id", "flavors.id", primary=True, on_delete="CASCADE"),
    sa.Column("project_id", sa.Text, primary_key=True),
)

keypairs = table(
    "keypairs",
    key(),
    text("user_id"),
    text("name"),
    text("type", "ssh"),
    text("public_key"),
    text("fingerprint"),
    moment("created_at"),
    integer("number"),
    sa.UniqueConstraint("user_id", "name"),
)

servers = table(
    "servers",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    text("project_id"),
    text("user_id"),
    text("name"),
    text("hostname"),
    text("description", null=True),
    #: What the user wants: active, stopped, paused, suspended, offloaded, gone, …
    text("desired"),
    #: What one sees, in Nova's words.
    text("vm_state"),
    text("task_state", null=True),
    #: An administrator set what is seen of it; it stays until something is done to the server.
    flag("state_is_reset"),
    integer("power_state", 0),
    integer("progress", 0),
    ref("host", "agents.id", null=True),
    #: True from the first time that it was given to a host.
    flag("placed"),
    #: True while what a failed build left on the host is being removed.
    flag("giving_up"),
    #: Failed attempts: [{"host", "step", "error"}].
    document("attempts", "[]"),
    #: The newest fault: {"code", "message", "details", "created"}.
    document("fault", null=True, default=None),
    #: The flavor as it was when it was chosen.
    document("flavor"),
    text("flavorid", ""),
    #: What of it counts against the quota.
    integer("vcpus"),
    integer("ram"),
    text("image_id", null=True),
    document("image_properties"),
    text("shelved_image_id", null=True, sparse=True),
    text("key_name", null=True),
    text("key_data", null=True),
    text("user_data", null=True),
    flag("config_drive"),
    document("metadata"),
    text("zone", null=True),
    #: What the request asked of the scheduler: zone, host, node, hints.
    document("request"),
    flag("locked"),
    text("locked_by", null=True),
    text("locked_reason", null=True),
    text("reservation_id"),
    integer("launch_index", 0),
    text("root_device_name", null=True),
    text("access_ip_v4", null=True),
    text("access_ip_v6", null=True),
    text("disk_config", "MANUAL"),
    document("trusted_image_certificates", null=True, default=None),
    #: One-shot actions are counters: {"starts", "reboots", "hard_reboots"}.
    document("counters"),
    #: True from a request to plug or unplug a device until that is done.
    flag("devices_pending"),
    #: What a single action in flight must remember: {"name": "createBackup", "type", "rotation"},
    #: {"name": "changePassword", "password"}, {"name": "evacuate", "desired"}.
    document("pending", null=True, default=None),
    #: The move that is under way, or waits to be confirmed.
    text("migration_id", null=True),
    #: Its disks are to be made anew: {"keep": parts that stay}.
    document("rebuild", null=True, default=None),
    #: It runs from another disk: {"image": id}.
    document("rescue", null=True, default=None),
    #: An image of it is being made.
    text("snapshot_image_id", null=True, sparse=True),
    #: When a soft-deleted server goes.
    moment("reclaim_at", null=True),
    ref("group_id", "server_groups.id", null=True, on_delete="SET NULL", sparse=True),
    moment("created_at"),
    moment("updated_at"),
    moment("launched_at", null=True),
    moment("shelved_at", null=True),
    moment("build_until", null=True),
    integer("number"),
    sa.Index("ix_servers_project_id_created_at", "project_id", "created_at", "id"),
    sa.Index("ix_servers_created_at", "created_at", "id"),
    #: Usage is counted from the index alone.
    sa.Index("ix_servers_usage", "project_id", "vm_state", "vcpus", "ram"),
)

server_tags = table(
    "server_tags",
    ref("server_id", "servers.id", primary=True, on_delete="CASCADE"),
    sa.Column("tag", sa.Text, primary_key=True),
)

#: One row per disk or volume of a server (block device mapping).
block_devices = table(
    "block_devices",
    key(),
    ref("server_id", "servers.id", on_delete="CASCADE"),
    integer("position"),
    text("source_type"),
    text("destination_type"),
    text("device_name", null=True),
    text("device_type", null=True),
    text("disk_bus", null=True),
    text("guest_format", null=True),
    integer("boot_index", null=True),
    integer("size", null=True),
    text("tag", null=True),
    flag("delete_on_termination"),
    text("image_id", null=True),
    text("snapshot_id", null=True),
    text("volume_type", null=True),
    #: Goes with the volume, so a volume deleted behind our back leaves no row.
    ref("volume_id", "volumes.id", null=True, on_delete="CASCADE", sparse=True),
    #: True from the request to detach; the row goes when nothing of it is left outside.
    flag("detaching"),
    #: The device whose place this one takes, as soon as all that is in that one is in this one too. No list shows it
    #: before the other is gone.
    ref("replaces", "block_devices.id", null=True, on_delete="SET NULL"),
    moment("created_at"),
    narrow=True,
)

#: One row per port of a server.
interfaces = table(
    "interfaces",
    key(),
    ref("server_id", "servers.id", on_delete="CASCADE"),
    integer("position"),
    #: Goes with the port.
    ref("port_id", "ports.id", on_delete="CASCADE", index=False),
    #: We made the port, so we delete it; else the user brought it, and gets it back.
    flag("made_by_us"),
    #: What we wrote into the port's dns_name; it goes when the port is given back.
    text("named", ""),
    text("tag", null=True),
    flag("detaching"),
    moment("created_at"),
    sa.UniqueConstraint("port_id"),
    narrow=True,
)

server_groups = table(
    "server_groups",
    key(),
    text("project_id", index=True),
    text("user_id"),
    text("name"),
    text("policy"),
    document("rules"),
    moment("created_at"),
)

#: What was done to a server; stays when the server is gone, with a retention.
actions = table(
    "actions",
    key(),
    text("server_id"),
    text("action"),
    text("request_id"),
    text("user_id", null=True),
    text("project_id", null=True),
    text("message", null=True),
    moment("started_at"),
    moment("updated_at"),
    sa.Index("ix_actions_server_id", "server_id", "started_at"),
    narrow=True,
)

action_events = table(
    "action_events",
    key(),
    ref("action_id", "actions.id", on_delete="CASCADE"),
    text("event"),
    moment("started_at"),
    moment("finished_at", null=True),
    text("result", null=True),
    text("host", null=True),
    text("details", null=True),
    narrow=True,
)

#: Servers that are gone, for an administrator who asks; no foreign keys, with a retention.
deleted_servers = table(
    "deleted_servers",
    key(),
    text("project_id"),
    text("name"),
    moment("created_at"),
    moment("deleted_at"),
    #: The row as it was last, as the API shows it.
    document("server"),
    sa.Index("ix_deleted_servers_deleted_at", "deleted_at"),
)

#: Moves of servers from host to host; they stay when the server is gone, with a retention.
migrations = table(
    "migrations",
    key(),
    integer("number"),
    text("server_id", index=True),
    text("project_id"),
    text("user_id"),
    #: migration, resize, live-migration, evacuation
    text("type"),
    #: Where the plan is: preparing, moving, finishing, finished, confirming, reverting, aborting, failing; "" when it is over.
    text("phase"),
    #: What one sees, in Nova's words.
    text("status"),
    text("source", null=True),
    text("source_name", null=True),
    text("target", null=True),
    text("target_name", null=True),
    #: The only host that will do.
    text("requested_host", null=True),
    #: The flavors as servers remember them; a migration changes none.
    document("old_flavor"),
    document("new_flavor"),
    text("error", null=True),
    moment("created_at"),
    moment("updated_at"),
    moment("confirm_at", null=True),
    sa.UniqueConstraint("number"),
    sa.Index("ix_migrations_created_at", "created_at", "id"),
)

aggregates = table(
    "aggregates",
    key(),
    integer("number"),
    text("name"),
    document("metadata"),
    moment("created_at"),
    moment("updated_at", null=True),
    sa.UniqueConstraint("name"),
    sa.UniqueConstraint("number"),
)

aggregate_hosts = table(
    "aggregate_hosts",
    ref("aggregate_id", "aggregates.id", primary=True),
    sa.Column("host", sa.Text, primary_key=True),
)

#: Limits of all areas; what is used is counted. area: compute, volume, network, image.
quotas = table(
    "quotas",
    sa.Column("area", sa.Text, primary_key=True),
    #: A project's id, "class:default" for the default class, or "user:<project>:<user>".
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("resource", sa.Text, primary_key=True),
    integer("hard_limit"),
)

#: One row per project that counted something: PostgreSQL locks it while it counts. SQLite has one writer.
project_locks = table("project_locks", key())
