"""What a cloud answered it answers again after it was killed and started: every GET of every service."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from cumulet.chance import RealChance
from cumulet.core.bootstrap import fixed
from tests import everything
from tests.cloud import TestCloud
from tests.process.cumulet import PATIENCE, Cloud, cloud
from tests.tenants import furnish

pytestmark = pytest.mark.anyio

PASSWORD = "secret"
SETTINGS = {"CUMULET_AUTH_ADMIN_PASSWORD": PASSWORD, "CUMULET_AUTH_DEMO_PASSWORD": PASSWORD}
USERS = ("admin", "demo")


class Other:
    """A cloud in another process, as ``tests.tenants`` asks one."""

    def __init__(self, up: Cloud) -> None:
        self.up = up
        self.chance = RealChance()
        self.tokens = {who: up.login(who, PASSWORD).headers["x-subject-token"] for who in USERS}

    @staticmethod
    def user(name: str) -> str:
        """Who is not there is the administrator."""
        return fixed("user", name if name in USERS else "admin")

    @staticmethod
    def project(name: str) -> str:
        return fixed("project", name)

    async def request(
        self, method: str, path: str, *, as_: str = "demo", version: str = "", **more: Any
    ) -> Any:
        headers = {"X-Auth-Token": self.tokens[as_], **more.pop("headers", {})}
        if version:
            headers["OpenStack-API-Version"] = version
        return self.up.http.request(method, path, headers=headers, **more)

    async def put(self, path: str, **more: Any) -> Any:
        return await self.request("PUT", path, **more)

    def answers(self) -> dict[str, Any]:
        """Every GET, asked by each of the users."""
        found = {}
        for who in USERS:

            def ask(path: str, headers: Mapping[str, str], who: str = who) -> tuple[int, bytes]:
                answer = self.up.http.get(path, headers={"X-Auth-Token": self.tokens[who], **headers})
                return answer.status_code, answer.content

            found.update({f"{name} as {who}": answer for name, answer in everything.answers(ask, 4).items()})
        return found


@contextlib.contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody else is given meanwhile; links in answers name it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_every_get_is_answered_as_before_the_kill(directory: Path) -> None:
    with free_port() as port:
        pass
    words = ("--port", str(port))
    with cloud(directory / "data", *words, env=SETTINGS) as up:
        other = Other(up)
        await furnish(cast(TestCloud, other), "demo", 1, inside=False)
        before = other.answers()
        up.kill()
    unseen = everything.unanswered(before)
    # Of few routes there is nothing to be seen: were they more, little would be compared.
    assert len(unseen) < len(everything.routes()) / 4, sorted(unseen)
    assert not [name for name, (status, _) in before.items() if status >= 500 and status != 501]
    end = time.monotonic() + PATIENCE
    with cloud(directory / "data", *words, env=SETTINGS) as up:
        other.up = up
        while found := everything.difference(before, other.answers()):
            assert time.monotonic() < end, "\n".join(found)
