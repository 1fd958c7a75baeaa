"""Pieces of tokens and logins that need no cloud."""

from __future__ import annotations

import asyncio

import argon2
import pytest

from cumulet.core import passwords as core
from cumulet.core.passwords import Passwords, TooManyLogins
from cumulet.core.token import Shared

pytestmark = pytest.mark.anyio


async def test_a_shared_read_begins_after_whoever_asked() -> None:
    value, begun = 0, 0
    gate = asyncio.Event()

    async def read() -> int:
        nonlocal begun
        begun += 1
        seen = value
        await gate.wait()
        return seen

    shared = Shared(read)
    first = asyncio.ensure_future(shared.read())
    await asyncio.sleep(0)
    value = 1
    late = [asyncio.ensure_future(shared.read()) for _ in range(10)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == 0
    assert await asyncio.gather(*late) == [1] * 10
    assert begun == 2


async def test_many_share_and_nobody_starves() -> None:
    begun = 0

    async def read() -> int:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0)
        return begun

    shared = Shared(read)

    async def loop() -> None:
        for _ in range(10):
            await shared.read()

    await asyncio.gather(*(loop() for _ in range(20)))
    assert begun <= 25


async def test_whoever_gives_up_does_not_spoil_it_for_others() -> None:
    gate = asyncio.Event()

    async def read() -> int:
        await gate.wait()
        return 7

    shared = Shared(read)
    first = asyncio.ensure_future(shared.read())
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(shared.read()) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    others[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await others[1] == 7
    assert await shared.read() == 7


async def test_a_right_password_is_remembered_for_its_digest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    passwords = Passwords(memory_kib=8, passes=1, clock=lambda: now)
    digest = await passwords.hash("right")
    hashed = 0
    verify = core._verify

    def counting(hasher: argon2.PasswordHasher, digest: str, secret: bytes) -> bool:
        nonlocal hashed
        hashed += 1
        return verify(hasher, digest, secret)

    monkeypatch.setattr(core, "_verify", counting)
    for _ in range(3):
        assert await passwords.matches("right", digest)
    assert hashed == 1
    assert not await passwords.matches("wrong", digest)
    other = await passwords.hash("other")
    assert not await passwords.matches("right", other)
    # Who does not exist costs as much as who does, and is never let in.
    before = hashed
    for _ in range(2):
        assert not await passwords.matches("right", None)
    assert hashed == before + 2
    now = 1000.0
    assert await passwords.matches("right", digest)
    assert hashed == before + 3


def test_failures_are_forgotten_after_the_wait() -> None:
    now = 0.0
    throttle = Passwords(memory_kib=8, passes=1, failures=2, wait=10.0, clock=lambda: now).throttle
    throttle.failed("u", "a")
    throttle.check("u", "a")
    throttle.failed("u", "a")
    with pytest.raises(TooManyLogins):
        throttle.check("u", "a")
    throttle.check("u", "b")
    now = 11.0
    throttle.check("u", "a")
    throttle.failed("u", "a")
    throttle.check("u", "a")
    throttle.succeeded("u", "a")
