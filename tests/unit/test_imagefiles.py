"""The image store on a directory: what is whole, what is not, and what is left of what was interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cumulet.drivers.base import Failed, Unknown
from cumulet.drivers.imagefiles import ImageFiles
from cumulet.wire.agent import Claim, Need, Question

pytestmark = pytest.mark.anyio

ID = "11111111-2222-3333-4444-555555555555"


def claim(**spec: Any) -> Claim:
    return Claim(
        id=ID, kind="file", part="", holder="image", wanted=True, act=True, made=False, revision=1,
        spec={"upload": "u", **spec}, needs=[],
    )  # fmt: skip


def store(directory: Path, *pieces: bytes, limit: int = 1 << 40) -> ImageFiles:
    async def bytes_of(claim: str, need: str) -> AsyncIterator[bytes]:
        assert (claim, need) == (ID, ID)
        for piece in pieces:
            yield piece

    return ImageFiles(directory, bytes_of, limit=limit)


def files(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "file"))


async def read(driver: ImageFiles, **args: Any) -> bytes:
    return b"".join([piece async for piece in await driver.answer(Question("q", "read", ID, args))])


async def test_make_look_read_remove(directory: Path) -> None:
    driver = store(directory, b"abc", b"", b"defg")
    assert await driver.observe() == {}
    assert await driver.look(ID, "file") is None
    await driver.remove(claim())
    made = await driver.ensure(claim())
    assert made.facts["size"] == 7
    assert made.facts["inspected"] == "raw"
    assert await driver.observe() == {ID: made}
    assert await read(driver) == b"abcdefg"
    assert await read(driver, offset=2, length=3) == b"cde"
    assert await read(driver, offset=5, length=100) == b"fg"
    # The bytes are here: they are not fetched again, from whom they might not come again.
    assert await store(directory).ensure(claim()) == made
    for _ in range(2):
        await driver.remove(claim())
    assert await driver.look(ID, "file") is None
    assert files(directory) == []
    with pytest.raises(Failed):
        await driver.answer(Question("q", "read", ID))


async def test_a_claim_that_names_no_origin(directory: Path) -> None:
    with pytest.raises(Failed) as caught:
        await store(directory).ensure(claim(upload=None))
    assert caught.value.fatal


async def test_the_bytes_of_what_it_needs(directory: Path) -> None:
    asked = []

    async def bytes_of(claim: str, need: str) -> AsyncIterator[bytes]:
        asked.append(need)
        yield b"abc"

    needs = Claim(
        **{
            **{name: getattr(claim(), name) for name in Claim.__struct_fields__},
            "needs": [Need("other", "source", "", {}, False)],
        }
    )
    await ImageFiles(directory, bytes_of).ensure(needs)
    assert asked == ["other"]


@pytest.mark.parametrize("most", ["of the store", "of the claim"])
async def test_too_many_bytes(directory: Path, most: str) -> None:
    driver = store(directory, b"abc", b"def", limit=5 if most == "of the store" else 1 << 40)
    with pytest.raises(Failed) as caught:
        await driver.ensure(claim(limit=None if most == "of the store" else 5))
    assert caught.value.cause == "large"
    assert files(directory) == []


async def test_a_full_disk(directory: Path) -> None:
    driver = store(directory, b"abc" * 1_000_000)
    (directory / "file" / f"{ID}.part").symlink_to("/dev/full")
    with pytest.raises(Failed) as caught:
        await driver.ensure(claim())
    assert caught.value.cause == "full"
    assert files(directory) == []


async def test_a_directory_that_is_not_there_is_not_empty(directory: Path) -> None:
    driver = store(directory)
    (directory / "file").rmdir()
    with pytest.raises(Unknown):
        await driver.observe()
    with pytest.raises(Unknown):
        await driver.look(ID, "file")


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.unit.test_imagefiles import claim
from cumulet.drivers.imagefiles import ImageFiles

async def bytes_of(claim, need):
    yield b"x" * 3_000_000
    yield b"y" * 3_000_000
    while not os.path.getsize(part):
        await asyncio.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)
    yield b"never"

part = sys.argv[2]
asyncio.run(ImageFiles(Path(sys.argv[1]), bytes_of).ensure(claim()))
"""


async def test_what_a_kill_leaves_is_seen_and_can_be_removed(directory: Path) -> None:
    part = directory / "file" / f"{ID}.part"
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", KILLED, str(directory), str(part), root]
    ended = await asyncio.create_subprocess_exec(*words)
    assert await ended.wait() == -signal.SIGKILL
    assert part.stat().st_size > 0
    driver = store(directory, b"abc")
    seen = (await driver.observe())[ID]
    assert seen.facts == {"partial": True}
    # It can be made, from the beginning, and it can be removed.
    assert (await driver.ensure(claim())).facts["size"] == 3
    assert files(directory) == [ID, f"{ID}.json"]
    part.write_bytes(b"half")
    await driver.remove(claim())
    assert files(directory) == []
