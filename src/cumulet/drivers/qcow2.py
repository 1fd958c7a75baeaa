"""The head of a qcow2 file: enough to write an empty disk, and to see whether a file is safe to open.

Images are hostile. A format is inspected, never probed, and whatever makes an emulator open another file, or
has features that are not known here, is refused. See the format's specification in QEMU's
docs/interop/qcow2.txt.
"""

from __future__ import annotations

import struct

MAGIC = b"QFI\xfb"
CLUSTER = 65536
#: Header, one refcount table cluster, one refcount block, one L1 table.
_HEAD = struct.Struct(">4sIQIIQIIQQIIQ")
_HEAD3 = struct.Struct(">QQQII")
#: Incompatible features that are harmless: "dirty", and compression of another kind than the usual one.
_KNOWN_INCOMPATIBLE = 1 | 8
#: Bytes that an inspection needs.
HEAD_SIZE = 512


class Unsafe(Exception):
    """The file would make an emulator do what it must not; the message says what was found."""


#: Header extension that names the format of the backing file.
_BACKING_FORMAT = 0xE2792ACA


def empty(virtual_size: int) -> bytes:
    """A valid, empty qcow2 file of a disk with ``virtual_size`` bytes."""
    return _file(virtual_size)


def overlay(virtual_size: int, backing: str, backing_format: str) -> bytes:
    """The same, of a disk that has nothing of its own yet: ``backing`` is read through it."""
    return _file(virtual_size, backing.encode(), backing_format.encode())


def _file(virtual_size: int, backing: bytes = b"", backing_format: bytes = b"") -> bytes:
    covered = CLUSTER * (CLUSTER // 8)
    l1_entries = max(1, -(-virtual_size // covered))
    l1_clusters = -(-l1_entries * 8 // CLUSTER)
    clusters = 3 + l1_clusters
    length = _HEAD.size + _HEAD3.size
    extensions = b""
    if backing:
        padded = backing_format.ljust(-(-len(backing_format) // 8) * 8, b"\0")
        extensions = struct.pack(">II", _BACKING_FORMAT, len(backing_format)) + padded + bytes(8)
    head = _HEAD.pack(
        MAGIC, 3, length + len(extensions) if backing else 0, len(backing), 16, virtual_size, 0, l1_entries,
        3 * CLUSTER, CLUSTER, 1, 0, 0,
    ) + _HEAD3.pack(0, 0, 0, 4, length) + extensions + backing  # fmt: skip
    table = struct.pack(">Q", 2 * CLUSTER)
    block = struct.pack(">H", 1) * clusters
    return (
        head.ljust(CLUSTER, b"\0")
        + table.ljust(CLUSTER, b"\0")
        + block.ljust(CLUSTER, b"\0")
        + bytes(l1_clusters * CLUSTER)
    )


def inspect(head: bytes) -> int:
    """The virtual size that a qcow2 header tells. ``head``: the file's first bytes.

    Raises ValueError if it is no qcow2 file, Unsafe if it must not be opened.
    """
    if not head.startswith(MAGIC):
        raise ValueError("not a qcow2 file")
    if len(head) < _HEAD.size:
        raise Unsafe("its qcow2 header is broken")
    (_, version, backing, _, cluster_bits, size, crypt, _, _, _, _, snapshots, _) = _HEAD.unpack_from(head)
    if version not in (2, 3):
        raise Unsafe(f"it is a qcow2 of version {version}")
    if backing:
        raise Unsafe("it names a backing file")
    if crypt:
        raise Unsafe("it is encrypted")
    if not 9 <= cluster_bits <= 21:
        raise Unsafe(f"its clusters are of 2^{cluster_bits} bytes")
    if snapshots:
        raise Unsafe("it has internal snapshots")
    if version == 3:
        if len(head) < _HEAD.size + _HEAD3.size:
            raise Unsafe("its qcow2 header is broken")
        incompatible = struct.unpack_from(">Q", head, _HEAD.size)[0]
        if incompatible & 2:
            raise Unsafe("it is marked as damaged")
        if incompatible & 4:
            raise Unsafe("it names a data file")
        if incompatible & ~_KNOWN_INCOMPATIBLE:
            raise Unsafe(f"it has incompatible features {incompatible:#x}")
    return int(size)
