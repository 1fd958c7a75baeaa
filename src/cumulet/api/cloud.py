"""What handlers may use of the process that they run in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cumulet.api.questions import Questions
from cumulet.chance import Chance
from cumulet.core.passwords import Passwords
from cumulet.core.policy import Policy
from cumulet.db.engine import Database
from cumulet.values import Caller

if TYPE_CHECKING:
    from cumulet.api.request import Request


class Metrics:
    """Counts requests; the real one is made in app.py, this one forgets."""

    def request(self, area: str, route: str, method: str, status: int, seconds: float) -> None:
        """One request was answered."""


@dataclass
class Cloud:
    """Passed to every handler as ``request.cloud``."""

    db: Database
    chance: Chance
    policy: Policy
    config: Any
    #: Verifies a token. Raises Unauthorized.
    caller: Callable[[str, Request], Awaitable[Caller]]
    passwords: Passwords
    metrics: Metrics
    questions: Questions
    log_requests: bool = False
    behind_proxy: bool = False
