"""Identity v3, below /identity."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.identity import (
    application_credentials,
    assignments,
    catalog,
    credentials,
    domain_options,
    domains,
    endpoint_filters,
    grants,
    groups,
    projects,
    roles,
    scopes,
    tokens,
    trusts,
    unified_limits,
    users,
    versions,
)
from cumulet.api.identity.target import target

ROUTES = (
    *versions.ROUTES,
    *tokens.ROUTES,
    *scopes.ROUTES,
    *users.ROUTES,
    *application_credentials.ROUTES,
    *credentials.ROUTES,
    *groups.ROUTES,
    *projects.ROUTES,
    *domains.ROUTES,
    *domain_options.ROUTES,
    *roles.ROUTES,
    *grants.ROUTES,
    *assignments.ROUTES,
    *catalog.ROUTES,
    *endpoint_filters.ROUTES,
    *trusts.ROUTES,
    *unified_limits.ROUTES,
)
AREA = Area(
    name="identity",
    prefix="/identity",
    dialect=faults.identity,
    routes=ROUTES,
    rules={**roles.RULES, **assignments.RULES, **trusts.RULES},
    target=target,
)
