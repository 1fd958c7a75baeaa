"""Domains, projects, users, groups, roles, assignments, catalogue, credentials, trusts, limits."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

#: Domains are projects that say so, with the same id in both roles, as upstream keeps them: a domain has
#: neither domain nor parent, and a project right below its domain has the domain as its parent.
projects = table(
    "projects",
    key(),
    ref("domain_id", "projects.id", null=True),
    ref("parent_id", "projects.id", null=True),
    text("name"),
    text("description", ""),
    flag("enabled", default=True),
    flag("is_domain"),
    document("options"),
    document("extra"),
    sa.UniqueConstraint("domain_id", "name"),
    sa.Index(
        "uq_projects_domain_name",
        "name",
        unique=True,
        sqlite_where=sa.text("is_domain"),
        postgresql_where=sa.text("is_domain"),
    ),
)

project_tags = table(
    "project_tags",
    ref("project_id", "projects.id", primary=True, on_delete="CASCADE"),
    sa.Column("tag", sa.Text, primary_key=True),
)

users = table(
    "users",
    key(),
    ref("domain_id", "projects.id"),
    text("name"),
    flag("enabled", default=True),
    text("default_project_id", null=True),
    #: Argon2id, with its parameters.
    text("password_digest", null=True),
    moment("password_set_at", null=True),
    moment("password_expires_at", null=True),
    #: True if the user chose it, rather than an administrator.
    flag("password_own"),
    #: Digests of the passwords before, the newest first.
    document("password_history", "[]"),
    document("options"),
    document("extra"),
    integer("failed_logins", 0),
    moment("failed_at", null=True),
    moment("active_at", null=True),
    moment("created_at"),
    sa.UniqueConstraint("domain_id", "name"),
)

groups = table(
    "groups",
    key(),
    ref("domain_id", "projects.id"),
    text("name"),
    text("description", ""),
    document("extra"),
    sa.UniqueConstraint("domain_id", "name"),
)

group_members = table(
    "group_members",
    ref("user_id", "users.id", primary=True, on_delete="CASCADE"),
    ref("group_id", "groups.id", primary=True, on_delete="CASCADE"),
    sa.Index("ix_group_members_group", "group_id"),
)

roles = table(
    "roles",
    key(),
    text("name"),
    #: "" for a role of the whole cloud.
    text("domain_id", ""),
    text("description", null=True),
    document("options"),
    document("extra"),
    sa.UniqueConstraint("name", "domain_id"),
)

implied_roles = table(
    "implied_roles",
    ref("prior_id", "roles.id", primary=True, on_delete="CASCADE"),
    ref("implied_id", "roles.id", primary=True, on_delete="CASCADE"),
)

#: Who (user or group) has a role on what (project, domain, or system with the id "system").
role_assignments = table(
    "role_assignments",
    sa.Column("actor_id", sa.Text, primary_key=True),
    sa.Column("actor_type", sa.Text, primary_key=True),
    sa.Column("target_type", sa.Text, primary_key=True),
    sa.Column("target_id", sa.Text, primary_key=True),
    ref("role_id", "roles.id", primary=True, on_delete="CASCADE"),
    #: Holds for all projects below the target, and not for the target itself.
    sa.Column("inherited", sa.Boolean, primary_key=True),
    sa.Index("ix_role_assignments_target", "target_type", "target_id"),
)

regions = table(
    "regions",
    key(),
    ref("parent_region_id", "regions.id", null=True),
    text("description", ""),
    document("extra"),
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

#: Endpoints that match the filters, named as one thing.
endpoint_groups = table(
    "endpoint_groups",
    key(),
    text("name"),
    text("description", null=True),
    document("filters"),
)

project_endpoint_groups = table(
    "project_endpoint_groups",
    ref("project_id", "projects.id", primary=True, on_delete="CASCADE"),
    ref("endpoint_group_id", "endpoint_groups.id", primary=True, on_delete="CASCADE"),
)

#: A project with any of these, or a group of endpoints, sees only them in its catalogue.
project_endpoints = table(
    "project_endpoints",
    ref("project_id", "projects.id", primary=True, on_delete="CASCADE"),
    ref("endpoint_id", "endpoints.id", primary=True, on_delete="CASCADE"),
)

#: Documents that services may fetch; Cumulet keeps them and does not read them.
policies = table(
    "policies",
    key(),
    text("type"),
    text("blob"),
    document("extra"),
)

#: Tokens that were revoked, until they would have expired anyway. ``subject`` is what they have in common:
#: "audit:…" one token, "chain:…" a token and all made from it, "user:…", "project:…", "domain:…".
revocations = table(
    "revocations",
    key(),
    text("subject", index=True),
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
    #: Ids of roles.
    document("roles", "[]"),
    moment("expires_at", null=True),
    flag("unrestricted"),
    moment("created_at"),
    sa.UniqueConstraint("user_id", "name"),
)

access_rules = table(
    "access_rules",
    key(),
    ref("user_id", "users.id", on_delete="CASCADE"),
    text("service"),
    text("method"),
    text("path"),
    sa.UniqueConstraint("user_id", "service", "method", "path"),
)

application_credential_rules = table(
    "application_credential_rules",
    ref("application_credential_id", "application_credentials.id", primary=True, on_delete="CASCADE"),
    ref("access_rule_id", "access_rules.id", primary=True),
    sa.Index("ix_application_credential_rules_rule", "access_rule_id"),
)

trusts = table(
    "trusts",
    key(),
    ref("trustor_user_id", "users.id", on_delete="CASCADE"),
    ref("trustee_user_id", "users.id", on_delete="CASCADE"),
    ref("project_id", "projects.id", null=True, on_delete="CASCADE"),
    flag("impersonation"),
    #: Ids of roles.
    document("roles", "[]"),
    moment("expires_at", null=True),
    integer("remaining_uses", null=True),
    #: The trust that this one was made from: it goes with it.
    ref("redelegated_trust_id", "trusts.id", null=True, on_delete="CASCADE"),
    integer("redelegation_count", 0),
    document("extra"),
    moment("created_at"),
)

#: What users keep with us for other services: EC2 keys, TOTP seeds, certificates.
credentials = table(
    "credentials",
    key(),
    ref("user_id", "users.id", on_delete="CASCADE"),
    ref("project_id", "projects.id", null=True, on_delete="CASCADE"),
    text("type"),
    #: Encrypted with the key of the tokens.
    text("blob"),
    document("extra"),
)

oauth_consumers = table(
    "oauth_consumers",
    key(),
    text("description", null=True),
    #: Encrypted likewise: OAuth signs with it, so a digest would not do.
    text("secret"),
    document("extra"),
)

registered_limits = table(
    "registered_limits",
    key(),
    ref("service_id", "services.id"),
    ref("region_id", "regions.id", null=True),
    text("resource_name"),
    integer("default_limit"),
    text("description", null=True),
    sa.UniqueConstraint("service_id", "region_id", "resource_name"),
)

project_limits = table(
    "project_limits",
    key(),
    ref("registered_limit_id", "registered_limits.id"),
    #: One of the two is null.
    ref("project_id", "projects.id", null=True, on_delete="CASCADE"),
    ref("domain_id", "projects.id", null=True, on_delete="CASCADE"),
    integer("resource_limit"),
    text("description", null=True),
    sa.UniqueConstraint("registered_limit_id", "project_id"),
    sa.UniqueConstraint("registered_limit_id", "domain_id"),
)

domain_options = table(
    "domain_options",
    ref("domain_id", "projects.id", primary=True, on_delete="CASCADE"),
    sa.Column("section", sa.Text, primary_key=True),
    sa.Column("option", sa.Text, primary_key=True),
    #: {"value": …}
    document("value"),
)
