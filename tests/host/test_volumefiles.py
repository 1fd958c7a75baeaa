"""Volumes in files: what is in them, hostile images, guests that use them, and programs that are interrupted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import run
from tests.drivers import Here, claim, opened
from tests.guest import Host, guest, host, need, processes

from cumulet.config import Hosts
from cumulet.drivers import qcow2, volumefiles
from cumulet.drivers.base import Failed
from cumulet.wire.agent import Claim, Need, Question

pytestmark = pytest.mark.anyio
GIB, MIB = 1 << 30, 1 << 20
VOLUME = claim("volume", {"size_gb": 1})
EXPORT = claim("export", {}, VOLUME)
FILE = Need("f", "file", "", {}, False)


@pytest.fixture
def here(directory: Path) -> Iterator[Here]:
    with opened("volume files", directory) as made:
        yield made


def disk(here: Here, one: Claim) -> Path:
    return here.directory / one.kind / one.id / "disk"


def do(path: Path, *commands: str, format: str = "qcow2") -> None:
    """Read and write a disk; bytes that are not the expected ones fail."""
    words = [word for command in commands for word in ("-c", command)]
    told = run("qemu-io", "-f", format, *words, str(path)).stdout
    assert "failed" not in told, told


def copy(name: str, kind: str, of: Claim, **spec: Any) -> Claim:
    return claim(kind, spec or {"size_gb": 1}, of, name=name)


def sized(one: Claim, size_gb: int) -> Claim:
    """The same, made already, with another size."""
    return msgspec.structs.replace(one, made=True, revision=2, spec={**one.spec, "size_gb": size_gb})


# --- what is in them ---


async def test_copies_have_what_their_original_had_at_that_time(here: Here) -> None:
    await here.ensure(VOLUME)
    do(disk(here, VOLUME), "write -P 1 0 64k", "write -P 2 512M 64k")
    first = copy("first", "snapshot", VOLUME)
    await here.ensure(first)
    do(disk(here, VOLUME), "write -P 3 0 64k")
    second = copy("second", "snapshot", VOLUME)
    await here.ensure(second)
    clone = copy("clone", "volume", first, size_gb=2, source={"snapshot": first.id})
    await here.ensure(clone)
    twin = copy("twin", "volume", VOLUME, size_gb=1, source={"volume": VOLUME.id})
    await here.ensure(twin)
    backup = copy("backup", "backup", VOLUME)
    await here.ensure(backup)
    restored = copy("restored", "volume", backup, size_gb=1, source={"backup": backup.id})
    await here.ensure(restored)
    # They stand alone.
    for one in (VOLUME, first, backup):
        await here.remove(one)
    do(disk(here, restored), "read -P 3 0 64k", "read -P 2 512M 64k")
    do(disk(here, second), "read -P 3 0 64k", "read -P 2 512M 64k")
    do(disk(here, clone), "read -P 1 0 64k", "read -P 2 512M 64k", "read -P 0 1024M 64k")
    do(disk(here, twin), "read -P 3 0 64k", "read -P 2 512M 64k")


@pytest.mark.parametrize("format", ["qcow2", "raw"])
async def test_a_copy_is_read_as_it_is(here: Here, format: str) -> None:
    await here.ensure(VOLUME)
    do(disk(here, VOLUME), "write -P 7 0 64k")
    source = copy("source", "source", VOLUME, format=format)
    made = await here.ensure(source)
    pieces = await here.drivers["source"].answer(Question("q", "read", source.id, {"length": 4 * MIB}))
    read = b"".join([piece async for piece in pieces])
    size = disk(here, source).stat().st_size
    assert made.facts == {"format": format, "virtual_size": GIB, "size": size}
    assert read == disk(here, source).read_bytes()[: 4 * MIB]
    assert read[:4] == (qcow2.MAGIC if format == "qcow2" else b"\7\7\7\7")


async def test_what_is_no_copy_is_not_read(here: Here) -> None:
    await here.ensure(VOLUME)
    for id in (VOLUME.id, "0f0f0f0f-0000-4000-8000-000000000000"):
        with pytest.raises(Failed, match="no such copy"):
            await here.drivers["source"].answer(Question("q", "read", id))


async def test_a_format_that_cannot_be_made_is_refused(here: Here) -> None:
    await here.ensure(VOLUME)
    with pytest.raises(Failed, match="vmdk cannot be made here") as failed:
        await here.ensure(copy("source", "source", VOLUME, format="vmdk"))
    assert failed.value.fatal


async def test_a_volume_becomes_larger_and_never_smaller(here: Here) -> None:
    await here.ensure(VOLUME)
    do(disk(here, VOLUME), "write -P 1 1023M 64k")
    assert (await here.ensure(sized(VOLUME, 3))).facts["size_gb"] == 3
    do(disk(here, VOLUME), "read -P 1 1023M 64k", "read -P 0 3071M 64k")
    assert (await here.ensure(sized(VOLUME, 2))).facts["size_gb"] == 3
    assert (await here.observe())[VOLUME.id].facts["virtual_size"] == 3 * GIB


async def test_a_copy_does_not_fit_into_a_smaller_volume(here: Here) -> None:
    await here.ensure(claim("volume", {"size_gb": 2}))
    with pytest.raises(Failed, match="cannot have a copy"):
        await here.ensure(copy("twin", "volume", VOLUME, size_gb=1, source={"volume": VOLUME.id}))


@pytest.mark.parametrize("name", ["disk", "disk.json"])
async def test_data_that_are_lost_are_not_replaced_by_nothing(here: Here, name: str) -> None:
    await here.ensure(VOLUME)
    (disk(here, VOLUME).parent / name).unlink()
    seen = await here.look(VOLUME)
    assert seen is None or not seen.facts
    with pytest.raises(Failed, match="its data is damaged"):
        await here.ensure(sized(VOLUME, 1))
    await here.remove(VOLUME)
    assert os.listdir(here.directory / "volume") == []


# --- images ---


def from_image(format: str | None, size: int) -> Claim:
    source = {"image": "0f0f0f0f-0000-4000-8000-000000000000", "format": format, "size": size}
    return claim("volume", {"size_gb": 1, "source": source}, FILE)


def images(here: Here, data: bytes) -> None:
    async def bytes_of(claim: str, need: str) -> AsyncIterator[bytes]:
        assert need == FILE.id
        yield data

    here.drivers["volume"]._bytes_of = bytes_of  # type: ignore[attr-defined]


async def test_a_volume_of_an_image_keeps_nothing_of_the_image(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "image"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(path), "16M")
    do(path, "write -P 9 8M 64k")
    data = path.read_bytes()
    images(here, data)
    await here.ensure(from_image("qcow2", len(data)))
    do(disk(here, VOLUME), "read -P 9 8M 64k", "read -P 0 9M 1M", "read -P 0 1023M 64k")
    assert os.listdir(here.directory / "cache") == []


def _hostile(name: str, tmp_path: Path) -> bytes:
    if name == "backing":
        return qcow2.overlay(MIB, "/etc/passwd", "raw")
    if name == "data file":
        path = tmp_path / "image"
        options = f"data_file={tmp_path}/data,data_file_raw=on"
        run("qemu-img", "create", "-q", "-f", "qcow2", "-o", options, str(path), "1M")
        return path.read_bytes()
    if name == "vmdk":
        return b'# Disk DescriptorFile\ncreateType="monolithicFlat"\nRW 2048 FLAT "/etc/passwd" 0\n'
    return qcow2.empty(MIB)


@pytest.mark.parametrize(
    ("name", "format"), [("backing", "qcow2"), ("data file", "qcow2"), ("vmdk", "raw"), ("qcow2", "raw")]
)
async def test_hostile_images_are_never_opened(
    here: Here, tmp_path: Path, name: str, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _hostile(name, tmp_path)
    images(here, data)
    monkeypatch.setattr(volumefiles.program, "run", None)
    with pytest.raises(Failed, match="the image is refused") as failed:
        await here.ensure(from_image(format, len(data)))
    assert failed.value.fatal
    assert os.listdir(here.directory / "cache") == []


@pytest.mark.parametrize("format", ["vmdk", "iso", None])
async def test_images_of_other_formats_are_refused(here: Here, format: str | None) -> None:
    images(here, b"")
    with pytest.raises(Failed, match="convert it to qcow2 or raw"):
        await here.ensure(from_image(format, 0))


async def test_an_image_larger_than_the_volume_is_refused(here: Here) -> None:
    data = qcow2.empty(2 * GIB)
    images(here, data)
    with pytest.raises(Failed, match="the image needs"):
        await here.ensure(from_image("qcow2", len(data)))
    assert not disk(here, VOLUME).exists()


async def test_a_volume_that_a_guest_spoiled_is_not_followed(here: Here) -> None:
    """A guest that broke out of its emulator can write the head of the file."""
    await here.ensure(VOLUME)
    with disk(here, VOLUME).open("r+b") as file:
        file.write(qcow2.overlay(GIB, "/etc/passwd", "raw"))
    with pytest.raises(Failed, match="names a backing file"):
        await here.ensure(copy("snapshot", "snapshot", VOLUME))
    with pytest.raises(Failed, match="names a backing file"):
        await here.ensure(sized(VOLUME, 2))


# --- guests ---


@pytest.fixture
async def machine(directory: Path) -> AsyncIterator[Host]:
    (directory / "host").mkdir()
    settings = Hosts(hypervisor="qemu", accelerator="tcg", shutdown_seconds=0.1)
    with host(directory / "host", settings) as made:
        yield made


G1, G2 = "60606060-0000-4000-8000-000000000000", "61616161-0000-4000-8000-000000000000"
ATTACHMENT = "a1a1a1a1-0000-4000-8000-000000000000"


def using(id: str, facts: dict[str, Any], size_gb: int = 1, **spec: Any) -> Claim:
    """A guest that has the volume from its start, and nothing to boot from."""
    volume = {
        "part": ATTACHMENT, "kind": "export", "volume": VOLUME.id, "device": "/dev/vdb", "boot_index": None,
        "bus": None, "readonly": False, "serial": VOLUME.id, "size_gb": size_gb,
    }  # fmt: skip
    return guest(id, [], [need("export", EXPORT.id, ATTACHMENT, **facts)], volumes=[volume], **spec)


async def test_a_volume_that_a_guest_uses_is_not_copied(here: Here, machine: Host) -> None:
    await here.ensure(VOLUME)
    facts = (await here.ensure(EXPORT)).facts
    await machine.ensure(using(G1, facts))
    for kind, spec in (("snapshot", {"size_gb": 1}), ("source", {"format": "raw"})):
        one = copy(kind, kind, VOLUME, **spec)
        with pytest.raises(Failed, match="a guest uses the volume") as failed:
            await here.ensure(one)
        assert failed.value.cause == "in use"
        await here.remove(one)
    await machine.ensure(using(G1, facts, power="off"))
    await here.ensure(copy("snapshot", "snapshot", VOLUME))


async def test_two_guests_never_write_to_one_volume(here: Here, machine: Host) -> None:
    await here.ensure(VOLUME)
    facts = (await here.ensure(EXPORT)).facts
    await machine.ensure(using(G1, facts))
    with pytest.raises(Failed, match="lock"):
        await machine.ensure(using(G2, facts))
    await machine.remove(using(G1, facts))
    await machine.ensure(using(G2, facts))


async def test_a_guest_makes_its_volume_larger(here: Here, machine: Host) -> None:
    await here.ensure(VOLUME)
    facts = (await here.ensure(EXPORT)).facts
    await machine.ensure(using(G1, facts))
    (pid,) = processes(machine.directory)
    waiting = asyncio.create_task(here.ensure(sized(VOLUME, 2)))
    await asyncio.sleep(0)
    await machine.ensure(using(G1, facts, size_gb=2))
    assert (await waiting).facts["size_gb"] == 2
    assert processes(machine.directory) == [pid], "it was not started again"
    await machine.remove(using(G1, facts))
    do(disk(here, VOLUME), "read -P 0 2047M 64k")
    # One that is started meanwhile does it at its start.
    await machine.ensure(using(G1, facts, size_gb=3))
    assert (await here.ensure(sized(VOLUME, 3))).facts["size_gb"] == 3


async def test_a_volume_that_its_guest_does_not_make_larger_stays(
    here: Here, machine: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumefiles, "EXTEND_TIME", 0.1)
    await here.ensure(VOLUME)
    facts = (await here.ensure(EXPORT)).facts
    await machine.ensure(using(G1, facts))
    with pytest.raises(Failed, match="has not made it larger") as failed:
        await here.ensure(sized(VOLUME, 2))
    assert failed.value.cause == "in use"
    assert (await here.observe())[VOLUME.id].facts["size_gb"] == 1


# --- programs ---


def filled(here: Here) -> None:
    """Bytes that take some time to copy."""
    path = disk(here, VOLUME)
    do(path, *(f"write -P {i % 250 + 1} {i}M 1M" for i in range(300)))


def program_of(directory: Path) -> list[int]:
    """The processes of programs that have a file below the directory open."""
    return [pid for pid in processes(directory) if "qemu-img" in Path(f"/proc/{pid}/cmdline").read_text()]


async def begun(here: Here, one: Claim) -> asyncio.Task[Any]:
    """The making of a copy, whose program runs."""
    task = asyncio.create_task(here.ensure(one))
    async with asyncio.timeout(120):
        while not program_of(here.directory):
            assert not task.done(), "it was copied before it was seen"
            await asyncio.sleep(0)
    return task


async def test_a_copy_that_is_not_wanted_any_more_ends_with_its_program(here: Here) -> None:
    await here.ensure(VOLUME)
    filled(here)
    snapshot = copy("snapshot", "snapshot", VOLUME)
    task = await begun(here, snapshot)
    assert not here.store.idle(snapshot.id)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert program_of(here.directory) == []
    assert here.store.idle(snapshot.id)
    assert (await here.observe())[snapshot.id].facts == {}
    await here.ensure(snapshot)
    do(disk(here, snapshot), "read -P 50 299M 1M")


async def test_a_guest_gets_a_volume_once_its_copy_is_whole(here: Here) -> None:
    await here.ensure(VOLUME)
    filled(here)
    snapshot = copy("snapshot", "snapshot", VOLUME)
    task = await begun(here, snapshot)
    export = asyncio.create_task(here.ensure(EXPORT))
    assert (await export).facts["path"] == str(disk(here, VOLUME))
    assert program_of(here.directory) == []
    assert await here.look(snapshot) is not None
    await task


async def test_what_a_helper_still_works_on_is_left_alone(here: Here) -> None:
    await here.ensure(VOLUME)
    snapshot = copy("snapshot", "snapshot", VOLUME)
    with here.store.working(snapshot.id), pytest.raises(Failed, match="works on it already"):
        await here.ensure(snapshot)
