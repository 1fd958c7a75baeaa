"""Hears what other processes on the same PostgreSQL have committed, and wakes who waits for it here.

A notification is a hint that may be lost: after every break of the connection everybody is woken.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog

from cumulet.db.engine import PostgresDatabase

log = structlog.get_logger()

LONGEST_PAUSE = 5.0
#: How long one wait for notifications takes; the end of the process is looked for in between.
WAIT = 1.0


class Listener:
    """A thread with a connection of its own."""

    def __init__(self, db: PostgresDatabase) -> None:
        self._db = db
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)
        self.connected = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT * 2)

    def _run(self) -> None:
        import psycopg

        failures = 0
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._db.url, autocommit=True, connect_timeout=5) as connection:
                    connection.execute("listen cumulet")
                    if failures:
                        log.info("the database answers again")
                    failures = 0
                    self.connected.set()
                    self._db.wake.notify_all()
                    self._hear(connection)
            except psycopg.Error as error:
                if failures == 0:
                    log.warning("the connection to the database broke", error=str(error).strip())
                failures += 1
            self.connected.clear()
            self._stop.wait(min(0.1 * 2**failures, LONGEST_PAUSE))

    def _hear(self, connection: Any) -> None:
        while not self._stop.is_set():
            names: set[str] = set()
            for notification in connection.notifies(timeout=WAIT, stop_after=1):
                sender, _, payload = notification.payload.partition(":")
                if sender != self._db.process:
                    names.update(payload.split(","))
            if "*" in names:
                self._db.wake.notify_all()
            elif names:
                self._db.wake.notify(names)
