"""What handlers may use of the process that they run in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cumulet.api.questions import Questions
from cumulet.chance import Chance
from cumulet.core.passwords import Passwords
from cumulet.core.policy import Policy
from cumulet.db.engine import Database
from cumulet.reconcile.sweep import Sweeper
from cumulet.values import Caller

if TYPE_CHECKING:
    from cumulet.api.request import Request


class Metrics:
    """Counts requests; the real one is made in app.py, this one forgets."""

    def request(self, area: str, route: str, method: str, status: int, seconds: float) -> None:
        """One request was answered."""

    async def text(self, db: Database, parts: Mapping[str, Any]) -> bytes:
        """What was counted, in Prometheus' format."""
        return b""


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
    #: Agents whose token was verified: (id, token) → who it is.
    agents: dict[tuple[str, str], Caller] = field(default_factory=dict)
    log_requests: bool = False
    behind_proxy: bool = False
    #: The tasks of this process that must not end, by name.
    parts: dict[str, Any] = field(default_factory=dict)
    #: Writes a backup to a path; None where there is none to make. Blocks.
    backup: Callable[[Path], Any] | None = None
    #: Looks at everything; None where nothing runs.
    sweeper: Sweeper | None = None
    #: True once the process is to end: who waits for news gets an empty answer.
    closing: bool = False
