"""Pieces of the upstream checks that many of the identity API's rules are made of."""

from __future__ import annotations

ADMIN = "role:admin"
#: Whoever may read the whole system.
SYSTEM_READER = "(role:reader and system_scope:all)"
ADMIN_OR_READER = f"{ADMIN} or {SYSTEM_READER}"
OWNER = "user_id:%(user_id)s"


def reader_of(*domains: str, beside: str = "") -> str:
    """Administrators, system readers, and readers of the domain that the target is in."""
    inside = " and ".join(f"domain_id:%({domain})s" for domain in domains)
    return f"{ADMIN_OR_READER} or (role:reader and {inside})" + (f" or {beside}" if beside else "")


def manager_of(*domains: str) -> str:
    """Administrators, and managers of the domain that the target is in."""
    inside = " and ".join(f"domain_id:%({domain})s" for domain in domains)
    return f"{ADMIN} or (role:manager and {inside})"
