"""Resource providers, what they have and who uses it."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import integer, key, moment, ref, table, text

resource_providers = table(
    "resource_providers",
    key(),
    text("name"),
    integer("generation", 0),
    ref("parent_id", "resource_providers.id", null=True),
    ref("root_id", "resource_providers.id", null=True),
    #: Set where the provider is one of our hosts.
    ref("agent", "agents.id", null=True, on_delete="SET NULL"),
    moment("created_at"),
    moment("updated_at"),
    sa.UniqueConstraint("name"),
)

inventories = table(
    "inventories",
    ref("provider_id", "resource_providers.id", primary=True, on_delete="CASCADE"),
    sa.Column("resource_class", sa.Text, primary_key=True),
    integer("total"),
    integer("reserved", 0),
    integer("min_unit", 1),
    integer("max_unit", 2147483647),
    integer("step_size", 1),
    sa.Column("allocation_ratio", sa.Double, nullable=False, server_default=sa.text("1.0")),
    moment("updated_at"),
    narrow=True,
)

consumers = table(
    "consumers",
    key(),
    text("project_id"),
    text("user_id"),
    integer("generation", 0),
    text("type", null=True),
    moment("created_at"),
    moment("updated_at"),
    narrow=True,
)

allocations = table(
    "allocations",
    ref("consumer_id", "consumers.id", primary=True, on_delete="CASCADE"),
    ref("provider_id", "resource_providers.id", primary=True),
    sa.Column("resource_class", sa.Text, primary_key=True),
    integer("used"),
    moment("updated_at"),
    sa.Index("ix_allocations_provider_id_resource_class", "provider_id", "resource_class"),
    #: An allocation cannot name what its provider has not.
    sa.ForeignKeyConstraint(
        ["provider_id", "resource_class"], ["inventories.provider_id", "inventories.resource_class"]
    ),
    narrow=True,
)

traits = table("traits", sa.Column("name", sa.Text, primary_key=True), moment("created_at"))

provider_traits = table(
    "provider_traits",
    ref("provider_id", "resource_providers.id", primary=True, on_delete="CASCADE"),
    ref("trait", "traits.name", primary=True),
)

resource_classes = table(
    "resource_classes", sa.Column("name", sa.Text, primary_key=True), moment("created_at")
)

provider_aggregates = table(
    "provider_aggregates",
    ref("provider_id", "resource_providers.id", primary=True, on_delete="CASCADE"),
    sa.Column("aggregate_id", sa.Text, primary_key=True),
)
