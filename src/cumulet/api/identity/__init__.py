"""Identity v3, below /identity."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.identity import tokens, versions
from cumulet.api.identity.target import target

ROUTES = versions.ROUTES + tokens.ROUTES
AREA = Area(name="identity", prefix="/identity", dialect=faults.identity, routes=ROUTES, target=target)
