"""Files with disks in them: written, copied, and told apart from halves of them.

A file belongs to the user that programs run as, in a directory that this user cannot enter: programs get it open.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers import program, qcow2
from cumulet.drivers.base import Failed
from cumulet.drivers.qemu.machine import Format, Image


def write(path: Path, data: bytes, size: int, user: program.User | None) -> None:
    """A new file that begins with ``data`` and has at least ``size`` bytes, as the user's."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        if size > len(data):
            os.ftruncate(fd, size)
        program.give(fd, user)
    finally:
        os.close(fd)


def blank(path: Path, format: Format, size: int, user: program.User | None) -> Image:
    """A new file with an empty disk of ``size`` bytes."""
    write(path, qcow2.empty(size) if format == "qcow2" else b"", 0 if format == "qcow2" else size, user)
    return Image(str(path), format)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """The file, open while the block runs."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def read_json(path: Path) -> Any:
    """What ``write_json`` wrote; None if that was never finished."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def write_json(path: Path, value: Any) -> None:
    """All of it or nothing, whenever the process is killed."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(msgspec.json.encode(value))
    os.replace(draft, path)


def why(error: OSError, what: str, where: str) -> Failed:
    """The failure for an error while ``what`` was written: a full disk is told apart."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = f"{where} is full" if full else str(error.strerror)
    return Failed(f"{what} cannot be written: {reason}", cause="full" if full else "")


def check(fd: int, format: Format) -> None:
    """Look at the file before a program opens it, as far as its header could name other files. Raises Failed."""
    if format == "qcow2":
        try:
            qcow2.inspect(os.pread(fd, qcow2.HEAD_SIZE, 0))
        except (ValueError, qcow2.Unsafe) as error:
            raise Failed(f"the file of a disk is refused: {error}", fatal=True) from None


def node(format: Format, fd: int) -> dict[str, Any]:
    """An open file as QEMU's programs are told of it: the format is named, and what its header says is not followed."""
    found: dict[str, Any] = {"driver": format, "file": {"driver": "file", "filename": f"/proc/self/fd/{fd}"}}
    return {**found, "backing": None} if format == "qcow2" else found


def named(node: dict[str, Any]) -> str:
    """A node in the place of a file's name on a command line."""
    return "json:" + msgspec.json.encode(node).decode()


async def convert(
    image: Image,
    target: Image,
    size: int,
    *,
    base: Image | None = None,
    user: program.User | None,
    lock: int,
) -> None:
    """Copy a disk of ``size`` bytes, upon ``base`` if it has one, into a file with an empty disk that is as large.

    ``lock``: the claim's. Raises Failed, so while somebody writes to the image.
    """
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(opened(Path(image.path), os.O_RDONLY))
        out = stack.enter_context(opened(Path(target.path), os.O_RDWR))
        source = node(image.format, top)
        fds = [top, out]
        if base is not None:
            below = stack.enter_context(opened(Path(base.path), os.O_RDONLY))
            source["backing"] = node(base.format, below)
            fds.append(below)
        else:
            check(top, image.format)
        argv = [
            "qemu-img", "convert", "-n", "--target-is-zero", "-O", target.format, named(source), f"/proc/self/fd/{out}",
        ]  # fmt: skip
        try:
            await program.run(argv, who=user, lock=lock, fds=fds, seconds=seconds(size))
        except Failed as failed:
            if "No space left" in failed.message:
                raise Failed("the disk cannot be copied: there is no room for it", cause="full") from failed
            raise


def seconds(size: int) -> int:
    """Processor time that a program may take with so many bytes."""
    return 60 + 20 * (size >> 30)
