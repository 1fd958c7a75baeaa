"""Backups: the state of the control plane as one file, made while the cloud runs, and put back.

A backup is a tar file with the database, the first users' secrets and the identities of the agents that run
inside the process. What agents have (disks, volumes, bytes of images) is not in it. A restored cloud may
be older than what its agents have, so it begins report-only; see reconcile.mode.
"""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import tarfile
import tempfile
import time
from pathlib import Path

import msgspec

from cumulet import __version__, datadir
from cumulet.chance import RealChance
from cumulet.db import migrate
from cumulet.db.engine import SqliteDatabase, connect_sqlite
from cumulet.errors import Refused
from cumulet.exits import FAILED, IN_USE, SCHEMA
from cumulet.reconcile import mode

FORMAT = 1
_MANIFEST = "backup.json"
#: Members above this are refused: only the database may be large.
_SMALL = 1 << 20


class Manifest(msgspec.Struct, frozen=True):
    """What a backup says of itself."""

    format: int
    version: str
    schema: str
    made_at: float


def write(directory: Path, file: Path) -> Manifest:
    """Back up the cloud of a data directory into ``file``, mode 0600; the cloud may run. Blocks; run it in a thread.

    Raises Refused, and leaves no half file, if there is none or the disk is full.
    """
    source = directory / datadir.DATABASE
    if not source.exists():
        raise Refused(
            f"There is no cloud's database in {directory}. With PostgreSQL, back up with pg_dump.", FAILED
        )
    file = datadir.target(file)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with (
        datadir.usable(file, instead="another file"),
        tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as work,
    ):
        try:
            copy = Path(work) / datadir.DATABASE
            try:
                schema = _copy(source, copy)
            except sqlite3.Error as error:
                damaged = getattr(error, "sqlite_errorname", "").startswith(
                    ("SQLITE_CORRUPT", "SQLITE_NOTADB")
                )
                hint = "It is damaged: restore an older backup." if damaged else "Make room and try again."
                raise Refused(f"The database could not be copied: {error}. {hint}", FAILED) from error
            manifest = Manifest(FORMAT, __version__, schema, time.time())
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as out:
                with tarfile.open(fileobj=out, mode="w") as tar:
                    _add(tar, _MANIFEST, msgspec.json.encode(manifest))
                    tar.add(copy, datadir.DATABASE)
                    with contextlib.suppress(FileNotFoundError):
                        _add(tar, "secrets", (directory / "secrets").read_bytes())
                    for path in sorted((directory / "agents").glob("*/id")):
                        _add(tar, str(path.relative_to(directory)), path.read_bytes())
                out.flush()
                os.fsync(out.fileno())
            os.replace(draft, file)
        finally:
            with contextlib.suppress(OSError):  # where it cannot be removed it could not be made either
                draft.unlink()
    return manifest


def _copy(source: Path, target: Path) -> str:
    """A consistent copy by SQLite itself, over connections of our own; returns the schema's version."""
    with (
        contextlib.closing(connect_sqlite(source, read_only=True)) as reader,
        contextlib.closing(sqlite3.connect(target)) as writer,
    ):
        # All pages in one step: a copy in steps begins anew whenever the cloud writes.
        reader.backup(writer)
        writer.execute("pragma journal_mode = delete")
        return str(writer.execute("select version_num from alembic_version").fetchone()[0])


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o600
    info.mtime = int(time.time())
    tar.addfile(info, io.BytesIO(data))


def restore(file: Path, directory: Path, *, force: bool = False) -> Manifest:
    """Put a backup into a data directory that no cloud uses; it begins report-only. Raises Refused.

    A database that is there already needs ``force``, and is kept as cumulet.db.before-restore.
    """
    manifest = check(file)
    with datadir.opened(directory), datadir.usable(directory):
        target = directory / datadir.DATABASE
        if target.exists() and not force:
            raise Refused(
                f"There is a cloud in {directory} already. Choose another directory with --data, or replace it with --force.",
                IN_USE,
            )
        draft = directory / f".{datadir.DATABASE}.restored"
        try:
            with tarfile.open(file, "r:") as tar:
                _extract(tar, datadir.DATABASE, draft)
                _check_schema(draft)
                _enter(draft, f"restored from {file.name}")
                for path in (target, *(target.with_name(target.name + end) for end in ("-wal", "-shm"))):
                    if path.exists():
                        # Together: the log belongs to the file.
                        os.replace(path, path.with_name(path.name.replace(".db", ".db.before-restore")))
                os.replace(draft, target)
                for member in tar.getmembers():
                    parts = Path(member.name).parts
                    if member.name == "secrets":
                        _extract(tar, "secrets", directory / "secrets")
                    elif len(parts) == 3 and parts[0] == "agents" and parts[2] == "id" and ".." not in parts:
                        _agent(tar, member, directory)
        finally:
            for path in (draft, *(draft.with_name(draft.name + end) for end in ("-wal", "-shm"))):
                path.unlink(missing_ok=True)
    return manifest


def check(file: Path) -> Manifest:
    """What a backup says of itself. Raises Refused if it is none, or newer than this program."""
    try:
        with datadir.usable(file), tarfile.open(file, "r:") as tar:
            member = tar.getmember(_MANIFEST)
            stream = tar.extractfile(member) if member.isfile() and member.size <= _SMALL else None
            manifest = msgspec.json.decode(stream.read() if stream else b"", type=Manifest)
            tar.getmember(datadir.DATABASE)
    except (tarfile.TarError, KeyError, EOFError, msgspec.DecodeError) as error:
        raise Refused(f"{file} is not a backup of Cumulet, or it is damaged: {error}.", FAILED) from error
    if manifest.format > FORMAT:
        raise Refused(
            f"{file} was made by the newer version {manifest.version}. Restore it with that version.", SCHEMA
        )
    return manifest


def _extract(tar: tarfile.TarFile, name: str, target: Path) -> None:
    """Write one member's bytes to a path that we chose; names and modes in the file are not believed."""
    stream = tar.extractfile(tar.getmember(name))
    if stream is None:
        raise Refused(f"{name} in the backup is not a file.", FAILED)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with stream, os.fdopen(fd, "wb") as out:
        while piece := stream.read(1 << 20):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())


def _agent(tar: tarfile.TarFile, member: tarfile.TarInfo, directory: Path) -> None:
    """The identity of an agent of the process, unless it has one: then it has things of its own."""
    target = directory / Path(member.name)
    if not member.isfile() or member.size > 100 or target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _extract(tar, member.name, target)


def _check_schema(database: Path) -> None:
    try:
        db = SqliteDatabase(database, RealChance())
    except sqlite3.Error as error:
        raise Refused(f"The database in the backup is damaged: {error}.", FAILED) from error
    try:
        found = migrate.version(db)
        if found is None:
            raise Refused("The backup has no database of Cumulet.", SCHEMA)
        migrate.prepare(db)
        broken = db.read_now(lambda tx: tx.value("pragma quick_check"))
        if broken != "ok":
            raise Refused(f"The database in the backup is damaged: {broken}.", FAILED)
    except sqlite3.Error as error:
        raise Refused(f"The database in the backup is damaged: {error}.", FAILED) from error
    finally:
        db.close()


def _enter(database: Path, reason: str) -> None:
    db = SqliteDatabase(database, RealChance())
    try:
        db.write_now(mode.enter, reason)
        # One file again, so that it can be moved into place.
        db.connection.execute("pragma journal_mode = delete")
    finally:
        db.close()
