"""The composition root: which roles, which database, which drivers. The only file that knows all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cumulet.api import compute, identity, root
from cumulet.api.asgi import Application, Area
from cumulet.api.cloud import Cloud, Metrics
from cumulet.chance import Chance
from cumulet.config import Config
from cumulet.core import token
from cumulet.core.passwords import Passwords
from cumulet.core.policy import Policy
from cumulet.db.engine import Database

#: Every API of the cloud; the first serves what no other prefix does.
AREAS: tuple[Area, ...] = (root.AREA, identity.AREA, compute.AREA)


def policy(areas: Sequence[Area] = AREAS, overrides: dict[str, str] | None = None) -> Policy:
    """The rules of all routes with their upstream defaults, and what an operator replaced."""
    checks: dict[str, str] = {}
    for area in areas:
        checks.update(area.rules)
        checks.update({route.rule: route.check for route in area.routes if route.rule})
    return Policy({**checks, **(overrides or {})})


def application(db: Database, config: Config, chance: Chance, **parts: Any) -> Application:
    """The ASGI application over an open, prepared and seeded database."""
    cloud = Cloud(
        db=db,
        chance=chance,
        policy=policy(),
        config=config,
        caller=token.verifier(db, config),
        passwords=Passwords(
            memory_kib=config.auth.hash_memory_kib,
            passes=config.auth.hash_passes,
            failures=config.auth.throttle_failures,
            wait=config.auth.throttle_seconds,
        ),
        metrics=parts.get("metrics", Metrics()),
        log_requests=config.log.requests,
        behind_proxy=config.server.behind_proxy,
    )
    return Application(cloud, AREAS)
