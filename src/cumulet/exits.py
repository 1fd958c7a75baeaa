"""The exit codes of every command. docs/exit-codes.md is generated from this table."""

from __future__ import annotations

from collections.abc import Mapping

FAILED = 1
BAD_SETTINGS = 2
NOT_CLEAN = 3
SCHEMA = 4
IN_USE = 5
NOT_WRITABLE = 6
PORT = 7
NOT_RUNNING = 8
REFUSED = 9
DATABASE = 10
MISSING = 11

#: Code → (what it means, what to do).
CODES: Mapping[int, tuple[str, str]] = {
    0: ("All went well.", ""),
    FAILED: ("Something failed that has no code of its own.", "Read the message; with a trace, report it."),
    BAD_SETTINGS: (
        "The command line, the settings file or an environment variable is not valid.",
        "Correct what the message names. `cumulet settings` lists every setting.",
    ),
    NOT_CLEAN: ("A check found something: see the table above the message.", "Look at what the table names."),
    SCHEMA: (
        "The database is of a newer version of Cumulet, or is not Cumulet's at all. Nothing was changed.",
        "Start the newer version, or restore a backup made before the upgrade.",
    ),
    IN_USE: (
        "The data directory (or an agent's state directory) is in use by another process.",
        "Stop that process (`cumulet down`), or use another directory.",
    ),
    NOT_WRITABLE: (
        "A file or directory cannot be read or written: no permission, a read-only file system, a full disk.",
        "Correct what the message names; nothing was lost.",
    ),
    PORT: (
        "The address cannot be listened on.",
        "Stop who uses the port, or take another (`--port`, 0 for a free one).",
    ),
    NOT_RUNNING: ("The command needs a running cloud, and none answers.", "Start it with `cumulet up`."),
    REFUSED: (
        "The cloud refused: a wrong token, or a name that is taken.",
        "Ask the operator for a new token.",
    ),
    DATABASE: (
        "The database does not answer, or another program keeps it locked.",
        "Start the database, close the other program, or correct `database.url`.",
    ),
    MISSING: (
        "A program that the settings need is not on this machine.",
        "Install the package that the message names, or use simulated hosts.",
    ),
}
