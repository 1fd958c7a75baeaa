"""What images are, and which are refused: each trick that makes an emulator open another file has its line."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from cumulet.drivers import qcow2
from cumulet.drivers.inspection import HEAD_SIZE, Found, Unsafe, inspect

MIB = 1 << 20


def look(data: bytes, *, whole: bool = True) -> Found:
    return inspect(lambda offset, length: data[offset : offset + length], len(data), whole=whole)


def refused(data: bytes) -> str:
    with pytest.raises(Unsafe) as caught:
        look(data)
    return str(caught.value)


def changed(data: bytes, offset: int, form: str, *values: object) -> bytes:
    made = bytearray(data)
    struct.pack_into(form, made, offset, *values)
    return bytes(made)


QCOW2 = qcow2.empty(3 * MIB)


def test_qcow2() -> None:
    assert look(QCOW2) == Found("qcow2", 3 * MIB)
    assert look(changed(QCOW2, 4, ">I", 2)) == Found("qcow2", 3 * MIB)
    # Compression of another kind is known to every emulator of today.
    assert look(changed(QCOW2, 72, ">Q", 8)).format == "qcow2"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (changed(QCOW2, 8, ">QI", 0x200, 11), "backing file"),
        (changed(QCOW2, 72, ">Q", 4), "data file"),
        (changed(QCOW2, 72, ">Q", 2), "damaged"),
        (changed(QCOW2, 72, ">Q", 1 << 4), "incompatible features"),
        (changed(QCOW2, 72, ">Q", 1 << 63), "incompatible features"),
        (changed(QCOW2, 32, ">I", 1), "encrypted"),
        (changed(QCOW2, 32, ">I", 2), "encrypted"),
        (changed(QCOW2, 60, ">I", 1), "internal snapshots"),
        (changed(QCOW2, 20, ">I", 40), "clusters"),
        (changed(QCOW2, 4, ">I", 1), "version 1"),
        (changed(QCOW2, 4, ">I", 4), "version 4"),
        (QCOW2[:60], "broken"),
        (QCOW2[:80], "broken"),
    ],
)
def test_hostile_qcow2(data: bytes, why: str) -> None:
    assert why in refused(data)


def test_what_is_hostile_is_seen_from_the_beginning_of_the_stream() -> None:
    data = changed(QCOW2, 8, ">QI", 0x200, 11)
    with pytest.raises(Unsafe):
        look(data[:HEAD_SIZE], whole=False)


def test_bytes_without_a_form_are_raw() -> None:
    data = random.Random(7).randbytes(5000)
    assert look(data) == Found("raw", 5000)
    assert look(b"") == Found("raw", 0)
    assert look(b"Just some text, which is no disk.\n" * 100) == Found("raw", 3400)


# --- vmdk ---

DESCRIPTOR = """# Disk DescriptorFile
version=1
CID=12345678
parentCID=ffffffff
createType="{kind}"

# Extent description
RW 20480 SPARSE "{name}"

# The Disk Data Base
#DDB
ddb.adapterType = "ide"
"""


def vmdk(
    *, kind: str = "monolithicSparse", name: str = "disk.vmdk", more: str = "", version: int = 1,
    at: int = 1, directory: int = 21,
) -> bytes:  # fmt: skip
    text = (DESCRIPTOR.format(kind=kind, name=name) + more).encode()
    head = struct.pack("<4sIIQQQQIQQ", b"KDMV", version, 3, 20480, 128, at, 20, 512, 21, directory)
    return head.ljust(512, b"\0") + text.ljust(20 * 512, b"\0") + bytes(4096)


def footer(directory: int = 21, version: int = 1, mark: int = 3) -> bytes:
    head = struct.pack("<4sIIQQQQIQQ", b"KDMV", version, 3, 20480, 128, 1, 20, 512, 21, directory)
    return struct.pack("<QII", 1, 0, mark).ljust(512, b"\0") + head.ljust(512, b"\0") + bytes(512)


AT_END = 0xFFFFFFFFFFFFFFFF


def test_vmdk() -> None:
    assert look(vmdk()) == Found("vmdk", 20480 * 512)
    assert look(vmdk(kind="streamOptimized", directory=AT_END) + footer()).format == "vmdk"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (vmdk(kind="monolithicFlat"), "monolithicflat"),
        (vmdk(kind="twoGbMaxExtentSparse"), "twogbmaxextentsparse"),
        (vmdk(kind="vmfs"), "vmfs"),
        (vmdk(name="/etc/passwd"), "names another file"),
        (vmdk(more='parentFileNameHint="/etc/passwd"\n'), "backing file"),
        (vmdk(more="parentCID=00000001\n"), "backing file"),
        (vmdk(more="something else\n"), "not known"),
        (vmdk(version=9), "version 9"),
        (vmdk(at=30), "not where it belongs"),
        (vmdk(directory=AT_END) + footer(directory=AT_END), "another footer"),
        (vmdk(directory=AT_END) + footer(version=2), "contradicts"),
        (vmdk(directory=AT_END) + footer(mark=1), "broken mark"),
        (vmdk(directory=AT_END) + footer()[:-1] + b"x", "broken end"),
        (DESCRIPTOR.format(kind="monolithicFlat", name="/etc/passwd").encode(), "descriptor"),
        (b'createType="monolithicFlat"\nRW 1 FLAT "/etc/shadow" 0\n', "descriptor"),
    ],
)
def test_hostile_vmdk(data: bytes, why: str) -> None:
    assert why in refused(data)


# --- partition tables, ISO images, and both at once ---


def entry(kind: int, *, boot: int = 0, start: tuple[int, int, int] = (0, 2, 0), first: int = 1) -> bytes:
    return struct.pack("<B3BB3BII", boot, *start, kind, 0, 0, 0, first, 2048)


def disk(*entries: bytes) -> bytes:
    return bytes(446) + b"".join(entries).ljust(64, b"\0") + b"\x55\xaa" + bytes(40000)


def with_iso(data: bytes) -> bytes:
    volume = bytearray(2048)
    volume[0:6] = b"\x01CD001"
    struct.pack_into("<L", volume, 80, 30)
    struct.pack_into("<H", volume, 128, 2048)
    return data[: 32 << 10].ljust(32 << 10, b"\0") + bytes(volume) + bytes(4096)


def test_partitioned_disks_are_raw_disks_of_a_kind() -> None:
    data = disk(entry(0x83, boot=0x80, first=2048))
    assert look(data) == Found("gpt", len(data))
    data = disk(entry(0xEE))
    assert look(data) == Found("gpt", len(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (disk(), "no partitions"),
        (disk(entry(0x83, boot=7)), "boot flag"),
        (disk(entry(0xEE), entry(0x83)), "not the only one"),
        (disk(entry(0xEE, first=5)), "wrong place"),
        (disk(entry(0xEE, start=(1, 1, 1))), "wrong place"),
    ],
)
def test_odd_partition_tables(data: bytes, why: str) -> None:
    assert why in refused(data)


def test_a_fat_file_system_is_no_partition_table() -> None:
    data = bytearray(disk())
    data[0x10], data[0x15] = 2, 0xF8
    assert look(bytes(data)).format == "raw"


def test_iso() -> None:
    assert look(with_iso(b"")) == Found("iso", 30 * 2048)
    # One that can be written to a stick.
    assert look(with_iso(disk(entry(0x17, boot=0x80, first=0)))) == Found("iso", 30 * 2048)
    assert look(with_iso(disk())).format == "iso"


@pytest.mark.parametrize("head", [QCOW2, vmdk()])
def test_two_formats_at_once_are_refused(head: bytes) -> None:
    assert "several formats" in refused(with_iso(head))


# --- others ---


def test_vhd() -> None:
    data = bytearray(1024)
    data[0:8] = b"conectix"
    struct.pack_into(">Q", data, 40, 7 * MIB)
    struct.pack_into(">I", data, 60, 3)
    assert look(bytes(data)) == Found("vhd", 7 * MIB)
    struct.pack_into(">I", data, 60, 4)
    assert "another file" in refused(bytes(data))


def test_vdi() -> None:
    data = bytearray(1024)
    struct.pack_into("<I", data, 0x40, 0xBEDA107F)
    struct.pack_into("<I", data, 0x4C, 1)
    struct.pack_into("<Q", data, 0x170, 9 * MIB)
    assert look(bytes(data)) == Found("vdi", 9 * MIB)
    struct.pack_into("<I", data, 0x4C, 4)
    assert "another file" in refused(bytes(data))


def vhdx(*, parent: bool = False, regions: int = 1, metadata_at: int = 2 * MIB) -> bytes:
    data = bytearray(3 * MIB)
    data[0:8] = b"vhdxfile"
    struct.pack_into("<4sIII", data, 192 << 10, b"regi", 0, regions, 0)
    metadata = bytes.fromhex("06a27c8b90479a4bb8fe575f050f886e")
    struct.pack_into("<16sQII", data, (192 << 10) + 16, metadata, metadata_at, MIB, 1)
    struct.pack_into("<8sHH", data, 2 * MIB, b"metadata", 0, 2)
    items = (
        (
            bytes.fromhex("3767a1ca36fa434db3b633f0aa44e76b"),
            65536,
            struct.pack("<II", MIB, 2 if parent else 0),
        ),
        (bytes.fromhex("2442a52f1bcd7648b2115dbed83bf4b8"), 65544, struct.pack("<Q", 11 * MIB)),
    )
    for i, (id, offset, value) in enumerate(items):
        struct.pack_into("<16sIII", data, 2 * MIB + 32 + 32 * i, id, offset, len(value), 0)
        data[2 * MIB + offset : 2 * MIB + offset + len(value)] = value
    return bytes(data)


def test_vhdx() -> None:
    assert look(vhdx()) == Found("vhdx", 11 * MIB)
    assert "another file" in refused(vhdx(parent=True))
    assert "5000 entries" in refused(vhdx(regions=5000))
    assert "not where" in refused(vhdx(metadata_at=1 << 50))


def test_qed_and_luks() -> None:
    assert "qed" in refused(b"QED\0" + bytes(1024))
    data = bytearray(4096)
    struct.pack_into(">6sH", data, 0, b"LUKS\xba\xbe", 1)
    struct.pack_into(">I", data, 104, 4)
    assert look(bytes(data)) == Found("luks", 4096 - 2048)
    struct.pack_into(">H", data, 6, 2)
    assert "LUKS" in refused(bytes(data))


def test_no_bytes_make_it_fail_in_another_way() -> None:
    """Whatever comes, it is refused or it is something; nothing else is raised."""
    chance = random.Random(3)
    seeds = [QCOW2[:70000], vmdk(), vhdx(), disk(entry(0xEE)), with_iso(b""), b"conectix" + bytes(600)]
    for _ in range(600):
        data = bytearray(chance.choice(seeds)[: chance.randrange(1, 70000)])
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(min(len(data), 800))] = chance.randrange(256)
        for whole in (True, False):
            with contextlib.suppress(Unsafe):
                look(bytes(data), whole=whole)
