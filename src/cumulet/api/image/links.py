"""Links to the pages of a list."""

from __future__ import annotations

from urllib.parse import urlencode

from cumulet.api.request import Request


def link(request: Request, path: str, marker: str | None = None) -> str:
    """The first page of a list, or the one behind ``marker``.

    Without the service's prefix, for that is how clients of this service expect it.
    """
    pairs = [(name, value) for name, value in request.query if name != "marker"]
    if marker is not None:
        pairs.append(("marker", marker))
    return f"/v2/{path}?{urlencode(pairs)}" if pairs else f"/v2/{path}"
