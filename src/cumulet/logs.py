"""Where log lines go, and how they look. Values under names that sound like secrets are never written."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog

from cumulet.config import Log

_SECRET = re.compile(r"password|secret|token|credential|authorization|private_key", re.IGNORECASE)


class Lossy:
    """A stream for log lines: one that cannot be written, because the disk is full or nobody reads any more, is lost.

    Whoever logs is in the middle of something, and must not fail for it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure(config: Log) -> None:
    """Write lines for people, or JSON, to standard error."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    render: list[Any]
    if config.format == "json":
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        render = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, Lossy(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # Libraries log little, and only what goes wrong.
    logging.basicConfig(
        stream=sys.stderr, level=max(level, logging.WARNING), format="%(name)s: %(message)s", force=True
    )


def hide_secrets(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor: values of keys that name secrets are replaced."""
    for key in event:
        if _SECRET.search(key) and event[key]:
            event[key] = "***"
    return event
