"""What the rules of the identity API are applied to: ``%(target.user.domain_id)s`` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.api.identity import tokens
from cumulet.api.request import Request


async def target(request: Request) -> Mapping[str, Any]:
    """The ids in the path, and what is known of the things that they name."""
    found: dict[str, Any] = dict(request.params)
    if request.route is not None and request.route.path == "/v3/auth/tokens":
        found |= await request.cloud.db.read(tokens.subject, request.headers.get("x-subject-token", ""))
    return found
