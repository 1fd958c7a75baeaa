"""What the bytes of an image are, and whether anybody may open them.

Images are hostile. An emulator that is told to open one may be made to open other files: a backing file, a data
file, the extents that a descriptor names. So the bytes are inspected where they arrive, and whatever names
another file, is of two formats at once, or has features that are not known here is refused. Nobody probes a
format afterwards: what opens an image is told what was found here.

The formats and what is refused of each follow the inspector that the image, compute and volume services share
(oslo.utils, ``imageutils.format_inspector``), and the specifications that it cites.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

import msgspec

from cumulet.drivers import qcow2
from cumulet.drivers.qcow2 import Unsafe as Unsafe

#: ``read(offset, length)``: bytes of the image, fewer at its end.
Read = Callable[[int, int], bytes]

#: Bytes from the beginning that are enough to see most of what is refused, while the rest is still coming.
HEAD_SIZE = 40 << 10
SECTOR = 512
#: The largest descriptor that QEMU reads.
_DESCRIPTOR = (1 << 20) - 1
_AT_END = 0xFFFFFFFFFFFFFFFF


class Found(msgspec.Struct, frozen=True):
    """What an image is, and the size of the disk that a guest would see; None where that is not known."""

    format: str
    virtual_size: int | None


def inspect(read: Read, size: int, *, whole: bool = True) -> Found:
    """What the bytes are; "raw" for everything that has no form of its own.

    ``whole`` False: only the beginning is there, and what cannot be seen yet is passed over. Raises Unsafe,
    saying what was found.
    """
    found = [one for one in (look(read, size, whole) for look in _LOOKS) if one is not None]
    names = {one.format for one in found}
    if names == {"iso", "gpt"}:
        # An ISO that can be written to a stick begins with a partition table as well.
        return next(one for one in found if one.format == "iso")
    if len(found) > 1:
        raise Unsafe(f"it is of several formats at once: {', '.join(sorted(names))}")
    if names == {"gpt"}:
        _check_partitions(read(0, SECTOR))
    return found[0] if found else Found("raw", size)


def _qcow2(read: Read, size: int, whole: bool) -> Found | None:
    head = read(0, SECTOR)
    if not head.startswith(qcow2.MAGIC):
        return None
    return Found("qcow2", qcow2.inspect(head))


def _qed(read: Read, size: int, whole: bool) -> Found | None:
    if read(0, 4) == b"QED\0":
        raise Unsafe("it is of the format qed, which is not taken")
    return None


def _vhd(read: Read, size: int, whole: bool) -> Found | None:
    head = read(0, SECTOR)
    if not head.startswith(b"conectix"):
        return None
    if len(head) < 64:
        raise Unsafe("its vhd header is broken")
    disk_type = struct.unpack_from(">I", head, 60)[0]
    if disk_type not in (2, 3):
        raise Unsafe("it is a vhd that needs another file")
    return Found("vhd", struct.unpack_from(">Q", head, 40)[0])


def _vdi(read: Read, size: int, whole: bool) -> Found | None:
    head = read(0, SECTOR)
    if len(head) < SECTOR or struct.unpack_from("<I", head, 0x40)[0] != 0xBEDA107F:
        return None
    if struct.unpack_from("<I", head, 0x4C)[0] not in (1, 2):
        raise Unsafe("it is a vdi that needs another file")
    return Found("vdi", struct.unpack_from("<Q", head, 0x170)[0])


def _luks(read: Read, size: int, whole: bool) -> Found | None:
    head = read(0, 592)
    if not head.startswith(b"LUKS\xba\xbe"):
        return None
    if len(head) < 592 or struct.unpack_from(">H", head, 6)[0] != 1:
        raise Unsafe("it is encrypted with LUKS of a version that is not known")
    return Found("luks", max(0, size - struct.unpack_from(">I", head, 104)[0] * SECTOR))


def _iso(read: Read, size: int, whole: bool) -> Found | None:
    head = read(32 << 10, 2048)
    if head[1:6] not in (b"CD001", b"NSR02", b"NSR03"):
        return None
    if len(head) < 132 or head[0] != 1:
        return Found("iso", None)
    blocks, block_size = struct.unpack_from("<L", head, 80)[0], struct.unpack_from("<H", head, 128)[0]
    return Found("iso", blocks * block_size)


def _gpt(read: Read, size: int, whole: bool) -> Found | None:
    """A partition table, old or new. A FAT file system ends its first sector alike and is none."""
    head = read(0, SECTOR)
    if len(head) < SECTOR or head[510:] != b"\x55\xaa":
        return None
    fat = head[0x10] == 2 and head[0x15] == 0xF8
    return None if fat else Found("gpt", size)


def _check_partitions(head: bytes) -> None:
    used = []
    protective = False
    for i in range(4):
        entry = struct.unpack_from("<B3BB3BII", head, 446 + 16 * i)
        if entry[0] not in (0x00, 0x80):
            raise Unsafe(f"entry {i} of its partition table has a boot flag that there is not")
        if entry[4] != 0:
            used.append(i)
        if entry[4] == 0xEE:
            protective = True
            if entry[1:4] != (0x00, 0x02, 0x00) or entry[8] != 1:
                raise Unsafe("its protective partition begins in the wrong place")
    if protective and used != [0]:
        raise Unsafe("its protective partition is not the only one")
    if not used:
        raise Unsafe("its partition table has no partitions")


# --- vhdx ---

_METADATA = bytes.fromhex("06a27c8b90479a4bb8fe575f050f886e")
_FILE_PARAMETERS = bytes.fromhex("3767a1ca36fa434db3b633f0aa44e76b")
_VIRTUAL_SIZE = bytes.fromhex("2442a52f1bcd7648b2115dbed83bf4b8")


def _vhdx(read: Read, size: int, whole: bool) -> Found | None:
    if not read(0, 8).startswith(b"vhdxfile"):
        return None
    if not whole:
        return Found("vhdx", None)
    items = dict(_vhdx_items(read))
    parameters = items.get(_FILE_PARAMETERS, b"")
    if len(parameters) >= 8 and struct.unpack_from("<I", parameters, 4)[0] & 2:
        raise Unsafe("it is a vhdx that needs another file")
    virtual_size = items.get(_VIRTUAL_SIZE, b"")
    return Found("vhdx", struct.unpack("<Q", virtual_size[:8])[0] if len(virtual_size) >= 8 else None)


def _vhdx_items(read: Read) -> Iterator[tuple[bytes, bytes]]:
    """The metadata of a vhdx: (id, value)."""
    table = read(192 << 10, 64 << 10)
    if len(table) < 16 or table[:4] != b"regi":
        raise Unsafe("its vhdx region table is not there")
    count = struct.unpack_from("<I", table, 8)[0]
    if count >= 2048:
        raise Unsafe(f"its vhdx region table has {count} entries")
    for i in range(count):
        entry = table[16 + 32 * i : 48 + 32 * i]
        if len(entry) == 32 and entry[:16] == _METADATA:
            offset = struct.unpack_from("<Q", entry, 16)[0]
            yield from _vhdx_metadata(read, offset)
            return


def _vhdx_metadata(read: Read, offset: int) -> Iterator[tuple[bytes, bytes]]:
    table = read(offset, 64 << 10)
    if table[:8] != b"metadata":
        raise Unsafe("its vhdx metadata is not where the header says")
    count = struct.unpack_from("<H", table, 10)[0]
    if count >= 2048:
        raise Unsafe(f"its vhdx metadata has {count} entries")
    for i in range(count):
        entry = table[32 + 32 * i : 64 + 32 * i]
        if len(entry) == 32:
            yield entry[:16], read(offset + struct.unpack_from("<I", entry, 16)[0], 64)


# --- vmdk ---

_SPARSE = struct.Struct("<4sIIQQQQIQQ")
_KNOWN_VMDK = ("monolithicsparse", "streamoptimized")


def _vmdk(read: Read, size: int, whole: bool) -> Found | None:
    head = read(0, SECTOR)
    if not head.startswith(b"KDMV"):
        _refuse_descriptor(read, head)
        return None
    if len(head) < _SPARSE.size:
        raise Unsafe("its vmdk header is broken")
    _, version, _, sectors, _, descriptor, length, _, _, directory = _SPARSE.unpack_from(head)
    if version not in (1, 2, 3):
        raise Unsafe(f"it is a vmdk of version {version}")
    if descriptor * SECTOR != SECTOR:
        raise Unsafe("its vmdk descriptor is not where it belongs")
    if whole or length * SECTOR <= HEAD_SIZE - SECTOR:
        _check_descriptor(read(SECTOR, min(length * SECTOR, _DESCRIPTOR)))
    if directory == _AT_END and whole:
        _check_footer(head, read(max(0, size - 3 * SECTOR), 3 * SECTOR))
    return Found("vmdk", sectors * SECTOR)


def _refuse_descriptor(read: Read, head: bytes) -> None:
    """A vmdk can be text alone, that names the files with the data."""
    if b"\0" in head or not head.isascii():
        return
    text = read(0, HEAD_SIZE).lower()
    if b"# disk descriptorfile" in text or re.search(rb'createtype\s*="', text):
        raise Unsafe("it is a vmdk descriptor, which names other files")


def _check_descriptor(raw: bytes) -> None:
    raw = raw.split(b"\0", 1)[0]
    if not raw.isascii():
        raise Unsafe("its vmdk descriptor is not text")
    text = raw.decode("ascii").lower()
    kind = re.search(r'createtype="([^"]{0,63})"', text)
    if kind is None or kind[1] not in _KNOWN_VMDK:
        raise Unsafe(f"it is a vmdk of the type {kind[1] if kind else 'unknown'}, which is not taken")
    if "parentfilenamehint" in text or re.search(r"parentcid\s*=\s*(?!ffffffff)", text):
        raise Unsafe("its vmdk descriptor names a backing file")
    extents = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "ddb")):
            continue
        if line.split(" ")[0] in ("rw", "rdonly", "noaccess"):
            extents.append(line)
        elif "=" not in line or " " in line.split("=")[0].strip():
            raise Unsafe("its vmdk descriptor has a line that is not known")
    if not extents:
        raise Unsafe("its vmdk descriptor has no extents")
    if any("/" in extent for extent in extents):
        raise Unsafe("its vmdk descriptor names another file")


def _check_footer(head: bytes, tail: bytes) -> None:
    """A streamed vmdk has its true header at the end; it must say what the one at the beginning says."""
    if len(tail) < 3 * SECTOR:
        raise Unsafe("its vmdk footer is not there")
    first, last = _SPARSE.unpack_from(head), _SPARSE.unpack_from(tail, SECTOR)
    if first[:2] != last[:2] or first[5:7] != last[5:7]:
        raise Unsafe("its vmdk footer contradicts its header")
    if last[9] == _AT_END:
        raise Unsafe("its vmdk footer points to another footer")
    _, length, kind = struct.unpack_from("<QII", tail)
    if length != 0 or kind != 3 or any(tail[16:SECTOR]):
        raise Unsafe("its vmdk footer has a broken mark")
    if any(tail[2 * SECTOR :]):
        raise Unsafe("its vmdk has a broken end")


_LOOKS: tuple[Callable[[Read, int, bool], Found | None], ...] = (
    _qcow2, _qed, _vhd, _vdi, _luks, _iso, _gpt, _vmdk, _vhdx,
)  # fmt: skip
