"""Passwords and secrets: hashing, checking, and what slows down who guesses.

Argon2id in threads, few at a time, so that a burst of logins takes neither the event loop nor the memory. A
secret that was right a moment ago is remembered by a keyed digest, in memory only: the key is drawn when the
process starts, and the stored digest is part of what is digested, so a changed password is forgotten.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Callable

import anyio
import anyio.to_thread
import argon2

from cumulet.errors import CumuletError, Invalid

#: Longer passwords are refused: hashing must not be made expensive from outside.
LONGEST = 4096
#: Hashing under way at once.
AT_ONCE = 2
REMEMBERED_SECONDS = 300.0
REMEMBERED = 2048
WATCHED = 8192


class TooManyLogins(CumuletError):
    """Somebody guesses."""

    status = 429
    title = "Too Many Requests"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many failed logins. Try again in {max(1, round(seconds))} seconds.")
        self.retry_after = max(1, round(seconds))


def hasher(memory_kib: int, passes: int) -> argon2.PasswordHasher:
    """Argon2id at a cost."""
    return argon2.PasswordHasher(time_cost=passes, memory_cost=memory_kib, parallelism=1, hash_len=32)


class Passwords:
    """One for each process."""

    def __init__(
        self,
        *,
        memory_kib: int = 19456,
        passes: int = 2,
        failures: int = 20,
        wait: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hasher = hasher(memory_kib, passes)
        self._limit: anyio.CapacityLimiter | None = None
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()
        self._clock = clock
        #: What is compared with when there is no such user, so that both answers take equally long.
        self._nobody = self._hasher.hash(os.urandom(16))
        self.throttle = Throttle(failures, wait, clock)

    async def hash(self, password: str) -> str:
        """The digest to store. Raises Invalid for a password that is too long."""
        if len(password) > LONGEST:
            raise Invalid(f"Invalid input for field/attribute password: longer than {LONGEST} characters.")
        return await anyio.to_thread.run_sync(
            self._hasher.hash, password.encode("utf-8", "surrogatepass"), limiter=self._limiter()
        )

    async def matches(self, password: str, digest: str | None) -> bool:
        """True if ``password`` is the one behind ``digest``; None is the digest of who does not exist."""
        if len(password) > LONGEST:
            return False
        secret = password.encode("utf-8", "surrogatepass")
        mark = hmac.digest(self._key, f"{digest}\0".encode() + secret, hashlib.sha256)
        until = self._right.get(mark)
        if until is not None and until > self._clock() and digest is not None:
            return True
        good = await anyio.to_thread.run_sync(
            _verify, self._hasher, digest or self._nobody, secret, limiter=self._limiter()
        )
        if not good or digest is None:
            return False
        self._right[mark] = self._clock() + REMEMBERED_SECONDS
        while len(self._right) > REMEMBERED:
            self._right.popitem(last=False)
        return True

    def _limiter(self) -> anyio.CapacityLimiter:
        # Made at the first use, when a loop runs.
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        return self._limit


def _verify(hasher: argon2.PasswordHasher, digest: str, secret: bytes) -> bool:
    try:
        return hasher.verify(digest, secret)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


class Throttle:
    """Failed logins by user and address. Whether the user exists makes no difference."""

    def __init__(self, failures: int, wait: float, clock: Callable[[], float]) -> None:
        self._failures = failures
        self._wait = wait
        self._clock = clock
        #: (failures, the time at which they are forgotten)
        self._seen: OrderedDict[tuple[str, ...], tuple[int, float]] = OrderedDict()

    def check(self, *who: str) -> None:
        """Raises TooManyLogins."""
        count, until = self._seen.get(who, (0, 0.0))
        left = until - self._clock()
        if count >= self._failures and left > 0:
            raise TooManyLogins(left)

    def failed(self, *who: str) -> None:
        count, until = self._seen.pop(who, (0, 0.0))
        now = self._clock()
        self._seen[who] = ((count if until > now else 0) + 1, now + self._wait)
        while len(self._seen) > WATCHED:
            self._seen.popitem(last=False)

    def succeeded(self, *who: str) -> None:
        self._seen.pop(who, None)
