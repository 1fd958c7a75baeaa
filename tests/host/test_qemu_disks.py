"""Disks of a host with real guests: made from images, blank, copied, removed. No guest is booted."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import struct
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import run
from tests.guest import HOSTS, MIB, Host, claim, host, image_spec, need, root_disk, until

from cumulet.config import Hosts
from cumulet.drivers import qcow2
from cumulet.drivers.base import Failed
from cumulet.wire.agent import Question

pytestmark = pytest.mark.anyio
D1, D2 = "d1d1d1d1-0000-4000-8000-000000000000", "d2d2d2d2-0000-4000-8000-000000000000"
SOURCE = "50505050-0000-4000-8000-000000000000"


@pytest.fixture
async def here(directory: Path) -> AsyncIterator[Host]:
    with host(directory) as made:
        yield made


def info(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("qemu-img", "info", "--output=json", str(path)).stdout)
    return found


async def test_root_disks_are_layers_on_one_cached_image(here: Host) -> None:
    first = await here.ensure(root_disk(D1))
    await here.ensure(root_disk(D2, size_mb=512))
    assert here.read == ["file"], "the image's bytes are fetched once"
    found = info(here.directory / "disk" / D1 / "disk")
    assert (found["format"], found["virtual-size"]) == ("qcow2", 256 * MIB)
    assert found["full-backing-filename"].endswith(str(image_spec()["sha512"]))  # type: ignore[attr-defined]
    assert info(here.directory / "disk" / D2 / "disk")["virtual-size"] == 512 * MIB
    assert first.facts["virtual_size"] == 256 * MIB


async def test_a_disk_that_is_made_is_not_made_again(here: Host) -> None:
    made = await here.ensure(root_disk(D1))
    inode = (here.directory / "disk" / D1 / "disk").stat().st_ino
    # What it was made from is gone, and does not matter.
    again = await here.ensure(claim("disk", D1, {}, part="root"))
    assert again == made
    assert (here.directory / "disk" / D1 / "disk").stat().st_ino == inode
    assert await here.observe() == {D1: made}


async def test_half_a_disk_is_begun_anew(here: Host) -> None:
    (here.directory / "disk" / D1).mkdir()
    (here.directory / "disk" / D1 / "disk").write_bytes(b"half")
    assert (await here.observe())[D1].facts == {}
    await here.ensure(root_disk(D1))
    assert info(here.directory / "disk" / D1 / "disk")["virtual-size"] == 256 * MIB


async def test_removal_leaves_nothing_and_can_be_repeated(here: Host) -> None:
    await here.remove(root_disk(D1))
    await here.ensure(root_disk(D1))
    await here.remove(root_disk(D1))
    await here.remove(root_disk(D1))
    assert os.listdir(here.directory / "disk") == []
    assert os.listdir(here.directory / "working") == []


async def test_an_image_that_no_disk_uses_goes_after_its_time(directory: Path) -> None:
    with host(directory, Hosts(image_cache_seconds=0)) as here:
        await here.ensure(root_disk(D1))
        await here.ensure(root_disk(D2))
        await here.remove(root_disk(D1))
        assert len(os.listdir(directory / "cache")) == 1, "another disk is made upon it"
        await here.remove(root_disk(D2))
        assert os.listdir(directory / "cache") == []


async def test_an_unused_image_stays_for_its_time(directory: Path) -> None:
    with host(directory) as here:
        await here.ensure(root_disk(D1))
        await here.remove(root_disk(D1))
        await here.ensure(root_disk(D2))
        assert here.read == ["file"]


async def test_what_is_left_of_a_fetch_goes(here: Host) -> None:
    (here.directory / "cache" / ".abc").write_bytes(b"part")
    await here.observe()
    assert os.listdir(here.directory / "cache") == []


async def test_two_disks_of_one_image_fetch_it_once(here: Host) -> None:
    await asyncio.gather(here.ensure(root_disk(D1)), here.ensure(root_disk(D2)))
    assert here.read == ["file"]


async def test_a_fetch_that_is_cancelled_is_begun_anew_by_whoever_waits(directory: Path) -> None:
    with host(directory) as here:
        begun = asyncio.Event()
        read, hold = here.bytes_of, True

        async def held(id: str, wanted: str) -> AsyncIterator[bytes]:
            async for piece in read(id, wanted):
                yield piece
                begun.set()
                if hold:
                    await asyncio.Event().wait()

        here.drivers["disk"]._bytes_of = held  # type: ignore[attr-defined]
        first = asyncio.create_task(here.ensure(root_disk(D1)))
        await begun.wait()
        second = asyncio.create_task(here.ensure(root_disk(D2)))
        await asyncio.sleep(0)
        hold = False
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).facts["format"] == "qcow2"
        assert [name for name in os.listdir(directory / "cache") if name.startswith(".")] == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sha512": "0" * 128}, "digest differs"),
        ({"size": 1000}, "more than the 1000 bytes"),
        ({"size": 1 << 40}, "were expected"),
    ],
)
async def test_bytes_that_are_not_the_images_are_refused(
    here: Host, changed: dict[str, object], words: str
) -> None:
    with pytest.raises(Failed, match=words) as failed:
        await here.ensure(root_disk(D1, **changed))
    assert not failed.value.fatal, "another host may get the right ones"
    assert os.listdir(here.directory / "cache") == []


@pytest.mark.parametrize("format", ["vmdk", "iso", None])
async def test_a_format_that_cannot_be_used_fails_everywhere(here: Host, format: str | None) -> None:
    with pytest.raises(Failed, match="convert it to qcow2 or raw") as failed:
        await here.ensure(root_disk(D1, format=format))
    assert failed.value.fatal


async def test_an_image_that_does_not_fit_fails_everywhere(here: Host) -> None:
    with pytest.raises(Failed, match="the flavor's has") as failed:
        await here.ensure(root_disk(D1, size_mb=8))
    assert failed.value.fatal


async def test_a_flavor_without_a_disk_gives_the_images_size(here: Host) -> None:
    made = await here.ensure(root_disk(D1, size_mb=0))
    assert (
        made.facts["virtual_size"]
        == info(here.directory / "cache" / str(image_spec()["sha512"]))["virtual-size"]
    )


def hostile(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    if name == "backing":
        path.write_bytes(qcow2.overlay(MIB, "/etc/passwd", "raw"))
    elif name == "data-file":
        run(
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-o",
            f"data_file={tmp_path}/data,data_file_raw=on",
            str(path),
            "1M",
        )
    elif name == "vmdk":
        path.write_text('# Disk DescriptorFile\ncreateType="monolithicFlat"\nRW 2048 FLAT "/etc/passwd" 0\n')
    else:
        path.write_bytes(qcow2.empty(MIB))
    return path


@pytest.mark.parametrize(
    ("name", "format"),
    [("backing", "qcow2"), ("data-file", "qcow2"), ("vmdk", "raw"), ("qcow2-as-raw", "raw")],
)
async def test_hostile_images_are_never_opened(
    directory: Path, tmp_path: Path, name: str, format: str
) -> None:
    path = hostile(tmp_path, name)
    with host(directory, files={"file": path}) as here:
        spec = root_disk(D1, format=format, size=path.stat().st_size, sha512=None)
        with pytest.raises(Failed, match="is refused") as failed:
            await here.ensure(spec)
        assert failed.value.fatal
        assert failed.value.cause == "unsafe"
        assert not (directory / "disk" / D1 / "disk").exists()


async def test_a_raw_image_is_read_as_raw(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(b"not a disk of any form".ljust(MIB, b"\0"))
    with host(directory, files={"file": path}) as here:
        await here.ensure(root_disk(D1, size_mb=4, format="raw", size=MIB, sha512=None))
        found = info(directory / "disk" / D1 / "disk")
        assert (found["backing-filename-format"], found["virtual-size"]) == ("raw", 4 * MIB)


async def test_a_blank_disk_has_a_file_system(here: Host) -> None:
    await here.ensure(claim("disk", D1, {"size_mb": 64, "format": None}, part="ephemeral0"))
    told = run("blkid", "-o", "export", "-p", str(here.directory / "disk" / D1 / "disk")).stdout
    assert "LABEL=ephemeral0" in told
    assert "TYPE=ext4" in told
    assert os.listdir(here.directory / "working") == []


async def test_a_file_system_that_cannot_be_had_is_named(here: Host) -> None:
    with pytest.raises(Failed, match="file system ntfs") as failed:
        await here.ensure(claim("disk", D1, {"size_mb": 64, "format": "ntfs"}, part="ephemeral0"))
    assert failed.value.fatal


async def test_a_swap_disk_is_one(here: Host) -> None:
    await here.ensure(claim("disk", D1, {"size_mb": 16, "format": "swap"}, part="swap"))
    told = run("blkid", "-o", "export", "-p", str(here.directory / "disk" / D1 / "disk")).stdout
    assert "TYPE=swap" in told


async def test_a_config_drive_has_its_files(here: Host) -> None:
    files = {
        "openstack/latest/meta_data.json": b'{"uuid": "u"}',
        "openstack/latest/user_data": os.urandom(65000),
        "openstack/content/0000": b"",
        **{f"openstack/content/a name that is longer than others {i}": b"%d" % i for i in range(100)},
    }
    encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    await here.ensure(claim("disk", D1, {"files": encoded}, part="config"))
    path = here.directory / "disk" / D1 / "disk"
    run("fsck.vfat", "-n", str(path))
    assert "LABEL=config-2" in run("blkid", "-o", "export", "-p", str(path)).stdout
    for name, data in files.items():
        assert _typed(path, name) == data, name


def _typed(image: Path, name: str) -> bytes:
    return subprocess.run(["mtype", "-i", image, f"::/{name}"], check=True, capture_output=True).stdout


async def test_a_config_drive_that_cannot_be_is_refused(here: Host) -> None:
    huge = base64.b64encode(bytes(130 * MIB)).decode()
    with pytest.raises(Failed, match="cannot be made") as failed:
        await here.ensure(claim("disk", D1, {"files": {"a": huge}}, part="config"))
    assert failed.value.fatal


@pytest.mark.parametrize("format", ["qcow2", "raw"])
async def test_a_copy_is_whole_without_the_image_below(here: Host, tmp_path: Path, format: str) -> None:
    await here.ensure(root_disk(D1))
    disk = here.directory / "disk" / D1 / "disk"
    run("qemu-io", "-f", "qcow2", "-c", "write -P 7 128M 1M", str(disk))
    copied = await here.ensure(
        claim("source", SOURCE, {"image": "i", "format": format}, [need("disk", D1, "root")])
    )
    assert copied.facts["virtual_size"] == 256 * MIB
    pieces = await here.drivers["source"].answer(Question("q", "read", SOURCE))
    out = tmp_path / "out"
    with out.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
    assert "backing-filename" not in info(out)
    run("qemu-img", "compare", "-f", format, "-F", "qcow2", str(out), str(disk))
    assert os.listdir(here.directory / "working") == []
    # The disk may go now.
    await here.remove(root_disk(D1))
    assert await here.ensure(claim("source", SOURCE, {"format": format})) == copied
    await here.remove(claim("source", SOURCE, {}))


async def test_a_disk_comes_from_another_host_as_it_was(directory: Path, tmp_path: Path) -> None:
    """With the bytes that it has there, and as large as the new flavor has it; the old one stays."""
    (directory / "old").mkdir()
    (directory / "new").mkdir()
    with host(directory / "old") as old:
        await old.ensure(root_disk(D1))
        disk = directory / "old" / "disk" / D1 / "disk"
        run("qemu-io", "-f", "qcow2", "-c", "write -P 7 128M 1M", str(disk))
        copy = claim("source", SOURCE, {"format": "qcow2"}, [need("disk", D1, "root")])
        facts = (await old.ensure(copy)).facts
        with host(directory / "new", files={SOURCE: directory / "old" / "source" / SOURCE / "copy"}) as new:
            source = need("source", SOURCE, "root", **facts)
            wanted = claim("disk", D2, {"copy": {"format": "qcow2"}, "size_mb": 300}, [source], "root")
            came = await new.ensure(wanted)
            assert came.facts["virtual_size"] == 300 * MIB
            assert sorted(os.listdir(directory / "new" / "disk" / D2)) == ["disk", "disk.json"]
            # What is beyond the old end is empty.
            run("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", str(disk), str(came.facts["path"]))
            assert await new.ensure(wanted) == came
            await new.remove(wanted)
        assert await old.look(root_disk(D1)) is not None


async def test_a_copy_that_is_larger_than_its_disk_is_not_taken(directory: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    with endless.open("wb") as file:
        file.truncate(80 << 20)
    with host(directory, files={SOURCE: endless}) as new:
        source = need("source", SOURCE, "root", format="qcow2", virtual_size=MIB)
        with pytest.raises(Failed, match="larger than the disk"):
            await new.ensure(claim("disk", D2, {"copy": {"format": "qcow2"}}, [source], "root"))


async def test_a_copy_of_what_is_not_here_fails(here: Host) -> None:
    with pytest.raises(Failed, match="is not here"):
        await here.ensure(claim("source", SOURCE, {"format": "qcow2"}, [need("disk", D1, "root")]))


async def test_a_helper_dies_with_the_work_that_wanted_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cumulet.drivers import program

    with host(directory) as here, here.store.working(D1) as lock:
        work = asyncio.create_task(program.run(["sleep", "1000"], who=program.user("nobody"), lock=lock))
        found = await until(lambda: asyncio.to_thread(_holders, directory / "working" / D1), 20, 0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert found[0] not in os.listdir("/proc")


def _holders(path: Path) -> list[str]:
    """Processes other than this one that hold the file."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"/proc/{name}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/{name}/fd/{fd}") == str(path):
                            found.append(name)
    return found


async def test_a_helper_runs_without_privileges_and_within_limits(directory: Path) -> None:
    from cumulet.drivers import program

    with host(directory) as here, here.store.working(D1) as lock:
        user = program.user(HOSTS.guest_user)
        told = await program.run(
            ["cat", "/proc/self/status", "/proc/self/limits"], who=user, lock=lock, seconds=7
        )
        assert "NoNewPrivs:\t1" in told
        if user is not None:
            assert f"Uid:\t{user.uid}\t{user.uid}" in told
            assert "Groups:\t \n" in told
        assert [line.split()[3] for line in told.splitlines() if line.startswith("Max cpu time")] == ["7"]
        with pytest.raises(Failed, match="cat failed: cat: /nowhere"):
            await program.run(["cat", "/nowhere"], who=user, lock=lock)
        with pytest.raises(Failed, match="nothing-like-it"):
            await program.run(["nothing-like-it"], who=user, lock=lock)


async def test_a_full_disk_is_said(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Failed, match="this host's disk is full") as failed:
        await here.ensure(root_disk(D1))
    assert failed.value.cause == "full"
    assert os.listdir(here.directory / "cache") == []


def test_swap_has_the_kernels_form() -> None:
    from cumulet.drivers.qemu.disks import _swap

    page = _swap(16 * MIB)
    assert page[-10:] == b"SWAPSPACE2"
    assert struct.unpack_from("<II", page, 1024) == (1, 16 * MIB // 4096 - 1)
