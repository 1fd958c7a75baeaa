"""Domains, projects, users, groups, roles, assignments, catalogue, credentials."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

domains = table(
    "domains",
    key(),
    text("name"),
    text("description", ""),
    flag("enabled", default=True),
    document("options"),
    sa.UniqueConstraint("name"),
)

projects = table(
    "projects",
    key(),
    ref("domain_id", "domains.id"),
    #: Null: right below its domain.
    ref("parent_id", "projects.id", null=True),
    text("name"),
    text("description", ""),
    flag("enabled", default=True),
    flag("is_domain"),
    document("options"),
    document("extra"),
    sa.UniqueConstraint("domain_id", "name"),
)

project_tags = table(
    "project_tags",
    ref("project_id", "projects.id", primary=True, on_delete="CASCADE"),
    sa.Column("tag", sa.Text, primary_key=True),
)

users = table(
    "users",
    key(),
    ref("domain_id", "domains.id"),
    text("name"),
    flag("enabled", default=True),
    text("default_project_id", null=True),
    #: Argon2id, with its parameters.
    text("password_digest", null=True),
    moment("password_set_at", null=True),
    moment("password_expires_at", null=True),
    text("email", null=True),
    text("description", null=True),
    document("options"),
    document("extra"),
    integer("failed_logins", 0),
    moment("locked_until", null=True),
    moment("created_at"),
    sa.UniqueConstraint("domain_id", "name"),
)

groups = table(
    "groups",
    key(),
    ref("domain_id", "domains.id"),
    text("name"),
    text("description", ""),
    sa.UniqueConstraint("domain_id", "name"),
)

group_members = table(
    "group_members",
    ref("group_id", "groups.id", primary=True, on_delete="CASCADE"),
    ref("user_id", "users.id", primary=True, on_delete="CASCADE"),
)

roles = table(
    "roles",
    key(),
    text("name"),
    #: "" for a role of the whole cloud.
    text("domain_id", ""),
    text("description", null=True),
    document("options"),
    sa.UniqueConstraint("name", "domain_id"),
)

implied_roles = table(
    "implied_roles",
    ref("prior_id", "roles.id", primary=True, on_delete="CASCADE"),
    ref("implied_id", "roles.id", primary=True, on_delete="CASCADE"),
)

#: Who (user or group) has a role on what (project, domain, "system").
role_assignments = table(
    "role_assignments",
    sa.Column("actor_type", sa.Text, primary_key=True),
    sa.Column("actor_id", sa.Text, primary_key=True),
    sa.Column("target_type", sa.Text, primary_key=True),
    sa.Column("target_id", sa.Text, primary_key=True),
    ref("role_id", "roles.id", primary=True, on_delete="CASCADE"),
    sa.Column("inherited", sa.Boolean, primary_key=True),
    sa.Index("ix_role_assignments_target", "target_type", "target_id"),
)

regions = table(
    "regions",
    key(),
    ref("parent_region_id", "regions.id", null=True),
    text("description", ""),
)

services = table(
    "services",
    key(),
    text("type"),
    text("name", null=True),
    text("description", null=True),
    flag("enabled", default=True),
    document("extra"),
)

endpoints = table(
    "endpoints",
    key(),
    ref("service_id", "services.id", on_delete="CASCADE"),
    ref("region_id", "regions.id", null=True),
    text("interface"),
    #: "$(base)s" stands for the address that the client used.
    text("url"),
    flag("enabled", default=True),
    document("extra"),
)

#: Whole tokens (by audit id) and whole chains that were revoked, until they would have expired anyway.
revocations = table(
    "revocations",
    key(),
    text("audit_id", null=True, index=True),
    text("user_id", null=True, index=True),
    moment("issued_before"),
    moment("forget_at"),
)

application_credentials = table(
    "application_credentials",
    key(),
    ref("user_id", "users.id", on_delete="CASCADE"),
    ref("project_id", "projects.id", on_delete="CASCADE"),
    text("name"),
    text("description", null=True),
    text("secret_digest"),
    document("roles", "[]"),
    moment("expires_at", null=True),
    flag("unrestricted"),
    document("access_rules", null=True, default=None),
    moment("created_at"),
    sa.UniqueConstraint("user_id", "name"),
)
