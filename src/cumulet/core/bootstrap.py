"""The first identity data of a cloud: who may log in, with which roles, and what the catalogue says."""

from __future__ import annotations

import itertools
import uuid

from cumulet.core import epoch, token
from cumulet.core.catalog import BASE, INTERFACES, SERVED
from cumulet.core.passwords import hasher
from cumulet.db.engine import Tx

DOMAIN = "default"
#: Each role implies the next (upstream's defaults); service stands alone.
ROLES = ("admin", "manager", "member", "reader")
#: Ids of what is made here are the same in every cloud: they follow from the names.
_NAMESPACE = uuid.UUID("6b3c5b52-2a6a-5a55-9f2c-0c2f6f1c7a10")


def seed_identity(
    tx: Tx,
    *,
    admin_password: str,
    demo_password: str,
    region: str = "RegionOne",
    base: str = BASE,
    memory_kib: int = 19456,
    passes: int = 2,
) -> None:
    """Make the default domain, the projects and users admin and demo, the roles, and the catalogue.

    What is there already is left as it is, passwords included, so it can be run at every start. ``base`` is
    what the endpoints' addresses begin with.
    """
    token.ensure_keys(tx)
    # Of several processes that start at once, one makes all of it, and the others wait here.
    if not tx.insert_new(
        "projects", id=DOMAIN, name="Default", description="The default domain", is_domain=True
    ):
        return
    for name in ("admin", "demo", "service"):
        tx.insert("projects", id=fixed("project", name), domain_id=DOMAIN, parent_id=DOMAIN, name=name)
    hash = hasher(memory_kib, passes).hash
    for name, password in (("admin", admin_password), ("demo", demo_password)):
        tx.insert(
            "users", id=fixed("user", name), domain_id=DOMAIN, name=name, password_digest=hash(password),
            password_set_at=tx.now, created_at=tx.now,
        )  # fmt: skip
    for name in (*ROLES, "service"):
        # No role of a new cloud can be deleted by accident: every rule is written in their terms.
        tx.insert("roles", id=fixed("role", name), name=name, options={"immutable": True})
    for prior, implied in itertools.pairwise(ROLES):
        tx.insert("implied_roles", prior_id=fixed("role", prior), implied_id=fixed("role", implied))
    admin, demo = fixed("user", "admin"), fixed("user", "demo")
    _assign(tx, admin, "project", fixed("project", "admin"), "admin")
    _assign(tx, admin, "domain", DOMAIN, "admin")
    _assign(tx, admin, "system", "system", "admin")
    _assign(tx, demo, "project", fixed("project", "demo"), "member")
    tx.insert("regions", id=region)
    for served in SERVED:
        service = fixed("service", served.type)
        tx.insert("services", id=service, type=served.type, name=served.name, description=served.description)
        for interface in INTERFACES:
            tx.insert(
                "endpoints", id=fixed("endpoint", f"{served.type} {interface}"), service_id=service,
                region_id=region, interface=interface, url=base + served.path,
            )  # fmt: skip
    epoch.touch(tx)


def fixed(kind: str, name: str) -> str:
    """The id of a thing that every new cloud has."""
    return uuid.uuid5(_NAMESPACE, f"{kind} {name}").hex


def _assign(tx: Tx, user: str, kind: str, target: str, role: str) -> None:
    tx.insert(
        "role_assignments", actor_id=user, actor_type="user", target_type=kind, target_id=target,
        role_id=fixed("role", role), inherited=False,
    )  # fmt: skip
