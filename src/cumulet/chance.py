"""Clock, randomness and ids as parameters, so that a test can be repeated from a seed."""

from __future__ import annotations

import os
import random
import secrets
import time
import uuid
from typing import Protocol


class Chance(Protocol):
    """Where time and randomness come from."""

    def now(self) -> float:
        """Seconds since the epoch; what rows carry."""

    def uuid(self) -> str:
        """A fresh id, in the 8-4-4-4-12 form."""

    def token(self, length: int = 32) -> str:
        """A secret of ``length`` random bytes, hexadecimal."""

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit`` - 1."""


#: The first digit of an id's fourth part keeps two of its bits.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class RealChance:
    """The system's clock and randomness."""

    def now(self) -> float:
        return time.time()

    def uuid(self) -> str:
        # What uuid.uuid4 gives, at a third of its price.
        h = os.urandom(16).hex()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:]}"

    def token(self, length: int = 32) -> str:
        return secrets.token_hex(length)

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)


class SeededChance:
    """Everything follows from the seed; the clock moves only when it is moved."""

    def __init__(self, seed: int, start: float = 1_700_000_000.0) -> None:
        self.random = random.Random(seed)
        self.time = start

    def now(self) -> float:
        return self.time

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def token(self, length: int = 32) -> str:
        return self.random.randbytes(length).hex()

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)
