"""A whole cloud in the test's process, over an empty database: real tokens, no sockets.

async with test_cloud(db) as cloud:
    response = await cloud.get("/compute/v2.1/flavors", as_="demo", version="compute 2.96")
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2

from cumulet.agent.build import Supervisor
from cumulet.app import SEEDS, application, running
from cumulet.chance import Chance, RealChance
from cumulet.config import Auth, Config, Hosts
from cumulet.core.bootstrap import DOMAIN, fixed, seed_identity
from cumulet.db.engine import Database, Tx
from cumulet.wire.asgi import InProcess

Seeds = tuple[Callable[[Tx], None], ...]
PASSWORD = "secret"
#: Hashing as cheap as it can be.
CHEAP = Auth(hash_memory_kib=8, hash_passes=1)

#: Who: (user, scope) with the scope as in the body of a login.
SCOPES: dict[str, tuple[str, Any]] = {
    "admin": ("admin", {"project": {"id": fixed("project", "admin")}}),
    "demo": ("demo", {"project": {"id": fixed("project", "demo")}}),
    "reader": ("reader", {"project": {"id": fixed("project", "demo")}}),
    "manager": ("manager", {"project": {"id": fixed("project", "demo")}}),
    "service": ("service", {"project": {"id": fixed("project", "service")}}),
    "other": ("other", {"project": {"id": fixed("project", "other")}}),
    "system": ("admin", {"system": {"all": True}}),
    "system_reader": ("system_reader", {"system": {"all": True}}),
    "domain": ("admin", {"domain": {"id": DOMAIN}}),
    "domain_manager": ("domain_manager", {"domain": {"id": DOMAIN}}),
    "domain_reader": ("domain_reader", {"domain": {"id": DOMAIN}}),
    "unscoped": ("demo", "unscoped"),
}


class TestCloud:
    """See ``test_cloud``."""

    __test__ = False

    def __init__(self, db: Database, config: Config, chance: Chance) -> None:
        self.db = db
        self.config = config
        self.chance = chance
        self.app = application(db, config, chance)
        self.client = httpx2.AsyncClient(transport=InProcess(self.app), base_url="http://cloud")
        #: The agents by name, in a running cloud.
        self.agents: dict[str, Supervisor] = {}
        self._tokens: dict[str, str] = {}

    @staticmethod
    def user(name: str) -> str:
        """The id of one of the users."""
        return fixed("user", name)

    @staticmethod
    def project(name: str) -> str:
        """The id of one of the projects."""
        return fixed("project", name)

    async def token(self, who: str) -> str:
        """A token of one of SCOPES, made at the first use."""
        if who not in self._tokens:
            user, scope = SCOPES[who]
            self._tokens[who] = await self.login(id=fixed("user", user), scope=scope)
        return self._tokens[who]

    async def login(self, *, password: str = PASSWORD, scope: Any = None, **user: Any) -> str:
        """A new token by password; the user is named by ``id``, or ``name`` and ``domain``."""
        response = await self.log_in(password=password, scope=scope, **user)
        assert response.status_code == 201, response.text
        return str(response.headers["x-subject-token"])

    async def log_in(self, *, password: str = PASSWORD, scope: Any = None, **user: Any) -> httpx2.Response:
        """The same, as the response."""
        auth: dict[str, Any] = {
            "identity": {"methods": ["password"], "password": {"user": {**user, "password": password}}}
        }
        if scope is not None:
            auth["scope"] = scope
        return await self.client.post("/identity/v3/auth/tokens?nocatalog", json={"auth": auth})

    async def request(
        self,
        method: str,
        path: str,
        *,
        as_: str | None = "demo",
        version: str = "",
        token: str = "",
        **more: Any,
    ) -> httpx2.Response:
        """One request: ``as_`` is one of SCOPES or None for nobody, ``version`` like "compute 2.96"."""
        headers = dict(more.pop("headers", None) or {})
        if token or as_ is not None:
            headers.setdefault("X-Auth-Token", token or await self.token(str(as_)))
        if version:
            headers["OpenStack-API-Version"] = version
        return await self.client.request(method, path, headers=headers, **more)

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("GET", path, **more)

    async def head(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("HEAD", path, **more)

    async def post(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("POST", path, **more)

    async def put(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("PUT", path, **more)

    async def patch(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("PATCH", path, **more)

    async def delete(self, path: str, **more: Any) -> httpx2.Response:
        return await self.request("DELETE", path, **more)


@contextlib.asynccontextmanager
async def test_cloud(
    db: Database,
    *,
    config: Config | None = None,  # noqa: PT028
    chance: Chance | None = None,  # noqa: PT028
    seeds: Seeds | None = None,  # noqa: PT028
) -> AsyncIterator[TestCloud]:
    """A seeded cloud over ``db``, which must be empty and prepared. ``seeds``: instead of SEEDS."""
    config = config or Config(auth=CHEAP)
    await db.write(seed, config.auth, SEEDS if seeds is None else seeds)
    cloud = TestCloud(db, config, chance or RealChance())
    try:
        yield cloud
    finally:
        await cloud.client.aclose()


test_cloud.__test__ = False

#: Seconds in which what a test waits for must come true; it comes sooner, or the test fails.
PATIENCE = 60.0


@contextlib.asynccontextmanager
async def running_cloud(
    db: Database, directory: Path, *, config: Config | None = None, chance: Chance | None = None
) -> AsyncIterator[TestCloud]:
    """``test_cloud`` with its workers and agents at work, whose state is below ``directory``."""
    config = config or Config(auth=CHEAP, hosts=Hosts(count=2))
    async with (
        test_cloud(db, config=config, chance=chance) as cloud,
        running(db, cloud.app, config, cloud.chance, directory) as agents,
    ):
        cloud.agents = agents
        await until(lambda: all_known(cloud))
        yield cloud


@contextlib.asynccontextmanager
async def again(db: Database, directory: Path, *, config: Config, chance: Chance) -> AsyncIterator[TestCloud]:
    """The same over a database that had a running cloud, and its directory."""
    cloud = TestCloud(db, config, chance)
    try:
        async with running(db, cloud.app, config, chance, directory) as agents:
            cloud.agents = agents
            await until(lambda: all_known(cloud))
            yield cloud
    finally:
        await cloud.client.aclose()


async def all_known(cloud: TestCloud) -> bool:
    return await cloud.db.read(lambda tx: tx.value("select count(*) from agents where session is null") == 0)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """What ``condition`` gives once that is true; it is asked again and again. Fails after PATIENCE."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.005)


def seed(tx: Tx, auth: Auth, seeds: Seeds) -> None:
    """What ``cumulet up`` makes, and the users of SCOPES."""
    seed_identity(
        tx, admin_password=PASSWORD, demo_password=PASSWORD, memory_kib=auth.hash_memory_kib,
        passes=auth.hash_passes,
    )  # fmt: skip
    for more in seeds:
        more(tx)
    tx.insert("projects", id=fixed("project", "other"), domain_id=DOMAIN, parent_id=DOMAIN, name="other")
    digest = tx.value("select password_digest from users where id = :id", id=fixed("user", "demo"))
    for name, kind, target, role in (
        ("reader", "project", fixed("project", "demo"), "reader"),
        ("manager", "project", fixed("project", "demo"), "manager"),
        ("service", "project", fixed("project", "service"), "service"),
        ("other", "project", fixed("project", "other"), "member"),
        ("system_reader", "system", "system", "reader"),
        ("domain_manager", "domain", DOMAIN, "manager"),
        ("domain_reader", "domain", DOMAIN, "reader"),
    ):
        user = fixed("user", name)
        tx.insert(
            "users", id=user, domain_id=DOMAIN, name=name, password_digest=digest, password_set_at=tx.now,
            created_at=tx.now,
        )  # fmt: skip
        tx.insert(
            "role_assignments", actor_id=user, actor_type="user", target_type=kind, target_id=target,
            role_id=fixed("role", role), inherited=False,
        )  # fmt: skip
