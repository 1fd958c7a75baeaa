"""A FAT16 file system with files in it, as bytes: the config drive. Pure.

Made here because no program that makes one is everywhere. See Microsoft's "FAT: General Overview of On-Disk
Format", 1.03; long names are stored as that says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

SECTOR = 512
#: A directory's tree: names, with the bytes of a file or another directory.
Tree: TypeAlias = "dict[str, bytes | Tree]"

_PER_CLUSTER = 4
CLUSTER = SECTOR * _PER_CLUSTER
_ROOT_ENTRIES = 512
_ROOT_SECTORS = _ROOT_ENTRIES * 32 // SECTOR
#: A file system with fewer clusters is taken for FAT12, one with more for FAT32.
_FEWEST, _MOST = 4096, 65500
_LAST = 0xFFFF
_DIRECTORY, _VOLUME, _LONG = 0x10, 0x08, 0x0F
#: 1980-01-01: the first day there is.
_DATE = 0x21
#: What a long name's entries are made of: where its 13 characters are.
_PLACES = (1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30)


def tree(files: Mapping[str, bytes]) -> Tree:
    """The directories that paths like "openstack/latest/user_data" stand for."""
    root: Tree = {}
    for path, data in files.items():
        *folders, name = path.split("/")
        at = root
        for folder in folders:
            inner = at.setdefault(folder, {})
            if isinstance(inner, bytes):
                raise ValueError(f"{folder} is a file and a directory")
            at = inner
        at[name] = data
    return root


def build(files: Mapping[str, bytes], label: str) -> tuple[bytes, int]:
    """The file system up to its last byte that is not zero, and its whole size.

    Raises ValueError for more than it has room for (127 MiB), and for paths that cannot be.
    """
    body = _Body()
    root = _named(label.encode()[:11].ljust(11), _VOLUME) + body.directory(tree(files), 0)
    if len(root) > _ROOT_ENTRIES * 32:
        raise ValueError("too many files in the root directory")
    count = max(_FEWEST, len(body.clusters))
    if count > _MOST:
        raise ValueError("more bytes than a config drive has room for")
    fat_sectors = -(-(count + 2) * 2 // SECTOR)
    total = 1 + 2 * fat_sectors + _ROOT_SECTORS + count * _PER_CLUSTER
    fat = struct.pack(f"<{len(body.links)}H", *body.links).ljust(fat_sectors * SECTOR, b"\0")
    data = b"".join(cluster.ljust(CLUSTER, b"\0") for cluster in body.clusters)
    root = root.ljust(_ROOT_SECTORS * SECTOR, b"\0")
    return _boot(fat_sectors, total, label) + fat + fat + root + data, total * SECTOR


def _boot(fat_sectors: int, total: int, label: str) -> bytes:
    small = total if total < 0x10000 else 0
    head = struct.pack(
        "<3s8sHBHBHHBHHHII", b"\xeb\x3c\x90", b"MSDOS5.0", SECTOR, _PER_CLUSTER, 1, 2, _ROOT_ENTRIES, small, 0xF8,
        fat_sectors, 32, 64, 0, 0 if small else total,
    ) + struct.pack("<BBBI11s8s", 0x80, 0, 0x29, 0x636D6C74, label.encode()[:11].ljust(11), b"FAT16   ")  # fmt: skip
    return head.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


class _Body:
    """Clusters, and how they are chained."""

    def __init__(self) -> None:
        self.clusters: list[bytes] = []
        self.links = [0xFFF8, _LAST]

    def reserve(self, size: int) -> int:
        """Room for that many bytes; its first cluster, 0 for none."""
        count = -(-size // CLUSTER)
        first = len(self.links)
        self.clusters += [b""] * count
        self.links += [*range(first + 1, first + count), _LAST][:count]
        return first if count else 0

    def fill(self, first: int, data: bytes) -> None:
        """Put bytes into reserved room."""
        for i in range(0, len(data), CLUSTER):
            self.clusters[first - 2 + i // CLUSTER] = data[i : i + CLUSTER]

    def directory(self, tree: Tree, own: int) -> bytes:
        """The entries of a directory, whose contents are stored; ``own``: its first cluster, 0 for the root."""
        taken: set[bytes] = set()
        entries = b""
        for name, content in tree.items():
            short = _short(name, taken)
            entries += b"".join(_long(name, short))
            if isinstance(content, bytes):
                first = self.reserve(len(content))
                self.fill(first, content)
                entries += _named(short, 0x20, first, len(content))
            else:
                first = self.reserve(32 * (2 + sum(1 + _parts(inner) for inner in content)))
                beginning = _named(b".".ljust(11), _DIRECTORY, first) + _named(
                    b"..".ljust(11), _DIRECTORY, own
                )
                self.fill(first, beginning + self.directory(content, first))
                entries += _named(short, _DIRECTORY, first)
        return entries


def _named(short: bytes, attribute: int, first: int = 0, size: int = 0) -> bytes:
    return struct.pack("<11sBBBHHHHHHHI", short, attribute, 0, 0, 0, _DATE, _DATE, 0, 0, _DATE, first, size)


def _short(name: str, taken: set[bytes]) -> bytes:
    """A name of 8 + 3 characters that is not taken."""
    base, _, suffix = name.rpartition(".") if "." in name[1:] else (name, "", "")
    kept = [
        "".join(c for c in part.upper() if c.isascii() and c.isalnum()).encode() for part in (base, suffix)
    ]
    for i in range(1, 1000):
        tail = b"~%d" % i
        short = kept[0][: 8 - len(tail)] + tail
        found = short.ljust(8) + kept[1][:3].ljust(3)
        if found not in taken:
            taken.add(found)
            return found
    raise ValueError("too many names that are alike")


def _parts(name: str) -> int:
    """How many entries a long name takes."""
    return -(-len(name.encode("utf-16-le")) // 26)


def _long(name: str, short: bytes) -> Iterator[bytes]:
    """The entries of a long name, the last part first."""
    text = name.encode("utf-16-le")
    units = [text[i : i + 2] for i in range(0, len(text), 2)]
    if not 0 < len(units) <= 255 or name in (".", ".."):
        raise ValueError(f"{name!r} cannot be a file's name")
    if len(units) % 13:
        units.append(b"\0\0")
    units += [b"\xff\xff"] * (-len(units) % 13)
    sum = 0
    for byte in short:
        sum = ((sum >> 1) + (sum << 7) + byte) & 0xFF
    parts = _parts(name)
    for part in range(parts, 0, -1):
        entry = bytearray(32)
        entry[0] = part | (0x40 if part == parts else 0)
        entry[11], entry[13] = _LONG, sum
        for place, unit in zip(_PLACES, units[(part - 1) * 13 : part * 13], strict=True):
            entry[place : place + 2] = unit
        yield bytes(entry)
