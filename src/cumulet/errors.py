"""The closed set of things that can go wrong, in domain words.

    CumuletError
    ├── Invalid        what was sent is not acceptable          (400)
    ├── Unauthorized   nobody, or nobody that we know           (401)
    ├── Forbidden      known, but not allowed                   (403)
    ├── NotFound       not there, or not there for this caller  (404)
    ├── Conflict       the thing is in a state that forbids it  (409)
    ├── OverQuota      a limit of the project is used up        (403 or 413, by area)
    ├── TooLarge       a body or list above its limit           (413)
    ├── Unsupported    a media type or format that we refuse    (415)
    ├── NoRoom         no host or back end can take it          (never an answer: a server's fault)
    └── Unavailable    cannot be done now, later perhaps        (503)

A message says what is wrong, what was found, and what would help. It is shown to the user, so it names
nothing that the user may not see.
"""

from __future__ import annotations


class CumuletError(Exception):
    """Base of all domain errors; ``message`` is for the user."""

    status = 500
    title = "Internal Server Error"

    def __init__(self, message: str = "", *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message or self.title)
        self.message = message or self.title
        # Network's dialect carries the name of an exception ("IpAddressInUse"), which clients match on.
        self.code = code
        if status is not None:
            self.status = status


class Invalid(CumuletError):
    status = 400
    title = "Bad Request"


class Unauthorized(CumuletError):
    status = 401
    title = "Unauthorized"


class Forbidden(CumuletError):
    status = 403
    title = "Forbidden"


class NotFound(CumuletError):
    status = 404
    title = "Not Found"


class Conflict(CumuletError):
    status = 409
    title = "Conflict"


class OverQuota(CumuletError):
    status = 403
    title = "Quota exceeded"


class TooLarge(CumuletError):
    status = 413
    title = "Request Entity Too Large"


class Unsupported(CumuletError):
    status = 415
    title = "Unsupported Media Type"


class NoRoom(CumuletError):
    status = 500
    title = "No valid host was found"


class Unavailable(CumuletError):
    status = 503
    title = "Service Unavailable"


class Refused(Exception):
    """The program cannot start or go on: one line for the operator, with what to do, and an exit code.

    Exit codes are documented in docs/exit-codes.md.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
