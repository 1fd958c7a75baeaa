"""Images; their bytes are claims of the image store."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

images = table(
    "images",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    text("owner", null=True),
    text("name", null=True),
    #: present, gone
    text("desired"),
    #: queued, saving, uploading, importing, active, killed, deactivated
    text("status"),
    text("visibility", "shared"),
    flag("protected"),
    flag("os_hidden"),
    text("container_format", null=True),
    text("disk_format", null=True),
    integer("min_disk", 0),
    integer("min_ram", 0),
    integer("size", null=True),
    integer("virtual_size", null=True),
    text("checksum", null=True),
    text("os_hash_algo", null=True),
    text("os_hash_value", null=True),
    #: What an inspection of the bytes found; "unsafe:…" is never booted.
    text("inspected", null=True),
    #: Why the last upload or import did not become an image, and what kind of reason that is: "unsafe", "large", …
    text("error", null=True),
    text("cause", null=True),
    #: Where the bytes come from while they are not here: {"upload": id}, {"url": …} or {"source": claim}.
    document("origin", null=True, default=None),
    #: The import that is under way, and the stores that the last one has yet to fill, and failed to.
    text("import_task", null=True),
    text("import_left", null=True),
    text("import_failed", null=True),
    moment("created_at"),
    moment("updated_at"),
    sa.Index("ix_images_created_at", "created_at", "id"),
    sa.Index("ix_images_owner", "owner"),
)

#: What users write about an image beyond its own fields.
image_properties = table(
    "image_properties",
    ref("image_id", "images.id", primary=True, on_delete="CASCADE"),
    sa.Column("name", sa.Text, primary_key=True),
    text("value"),
)

image_tags = table(
    "image_tags",
    ref("image_id", "images.id", primary=True, on_delete="CASCADE"),
    sa.Column("tag", sa.Text, primary_key=True),
)

image_members = table(
    "image_members",
    ref("image_id", "images.id", primary=True, on_delete="CASCADE"),
    sa.Column("member", sa.Text, primary_key=True),
    text("status", "pending"),
    moment("created_at"),
    moment("updated_at"),
    sa.Index("ix_image_members_member", "member"),
)

#: Imports, as they were asked for and as they ended. They stay for a while when their image is gone.
image_tasks = table(
    "image_tasks",
    key(),
    text("type"),
    #: processing, success, failure
    text("status"),
    text("owner", null=True),
    text("user_id"),
    text("image_id", null=True, index=True),
    text("request_id"),
    document("input"),
    document("result", null=True, default=None),
    text("message", ""),
    moment("created_at"),
    moment("updated_at"),
    moment("expires_at", null=True),
    sa.Index("ix_image_tasks_expires_at", "expires_at"),
)

#: Metadata definitions: sets of them, and what they hold.
metadef_namespaces = table(
    "metadef_namespaces",
    key(),
    text("namespace"),
    text("display_name", null=True),
    text("description", null=True),
    text("visibility"),
    flag("protected"),
    text("owner", null=True),
    moment("created_at"),
    moment("updated_at"),
    sa.UniqueConstraint("namespace"),
)

metadef_parts = table(
    "metadef_parts",
    ref("namespace_id", "metadef_namespaces.id", primary=True, on_delete="CASCADE"),
    #: object, property, tag, resource_type
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    document("content"),
    moment("created_at"),
    moment("updated_at"),
)

metadef_resource_types = table(
    "metadef_resource_types", sa.Column("name", sa.Text, primary_key=True), moment("created_at")
)
