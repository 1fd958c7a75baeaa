"""What only a cloud's administrator asks, below /cumulet: fault rules, the ledger, agents, backups.

It has no counterpart upstream. Every rule is ``role:admin``.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from cumulet.api import audit
from cumulet.api import faults as dialects
from cumulet.api.asgi import Area, Route
from cumulet.api.query import whole
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import claims, credentials, faults, joining
from cumulet.core.policy import ADMIN
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Forbidden, Invalid, Refused, Unavailable
from cumulet.reconcile import mode

PIECE = 1 << 18


# --- fault rules ---


async def list_faults(request: Request) -> Response:
    """GET /cumulet/v1/faults"""
    return ok({"faults": await request.cloud.db.read(faults.listing)})


async def add_fault(request: Request) -> Response:
    """POST /cumulet/v1/faults: a rule as core.faults.Rule has it; answers with it."""
    rule = await request.struct(faults.Rule)
    _short(rule)
    await _check_served(request)
    return created(await request.cloud.db.write(_add_fault, rule))


def _short(rule: faults.Rule) -> None:
    for name in ("step", "effect", "moment", "server", "host", "message"):
        if len(getattr(rule, name) or "") > 500:
            raise Invalid(f"Invalid input for field/attribute {name}: longer than 500 characters.")


def _add_fault(tx: Tx, rule: faults.Rule) -> Row:
    id = faults.add(tx, rule)
    row = tx.one("select * from faults where id = :id", id=id)
    assert row is not None
    return row


async def _check_served(request: Request) -> None:
    """Rules that destroy are for simulated clouds, unless the operator switched them on. Raises Forbidden."""
    if request.cloud.config.faults:
        return
    real = await request.cloud.db.read(_real_hosts)
    if real or request.cloud.config.hosts.hypervisor not in ("sim", "none"):
        raise Forbidden(
            "Fault rules are switched off while real hosts serve. Switch them on with the setting faults = true."
        )


def _real_hosts(tx: Tx) -> bool:
    facts = tx.values(
        "select facts from agents where kind = 'host' and not destroyed and session is not null"
    )
    return any(fact.get("hypervisor") != "sim" for fact in facts)


async def remove_fault(request: Request) -> Response:
    """DELETE /cumulet/v1/faults/{id}: who is held by it goes on."""
    await request.cloud.db.write(faults.remove, request.params["fault"])
    return no_content()


async def clear_faults(request: Request) -> Response:
    """DELETE /cumulet/v1/faults"""
    await request.cloud.db.write(faults.clear)
    return no_content()


async def list_steps(request: Request) -> Response:
    """GET /cumulet/v1/steps: what a rule's step can name, and what it can do there."""
    return ok({"steps": faults.steps(), "effects": list(faults.EFFECTS), "moments": ["before", "after"]})


# --- the ledger ---


def _limit(request: Request) -> int:
    limit = whole(request, "limit")
    if limit is None:
        return claims.LIMIT
    if not 1 <= limit <= claims.LIMIT:
        raise Invalid(f"Invalid input for query parameters limit: from 1 to {claims.LIMIT} was expected.")
    return limit


async def list_claims(request: Request) -> Response:
    """GET /cumulet/v1/claims?holder=&server=&agent=&kind=&limit=&marker="""
    found = await request.cloud.db.read(
        claims.listing, holder=request.arg("holder"), server=request.arg("server"), agent=request.arg("agent"),
        kind=request.arg("kind"), limit=_limit(request), marker=request.arg("marker"),
    )  # fmt: skip
    return ok({"claims": found})


async def list_debts(request: Request) -> Response:
    """GET /cumulet/v1/debts?agent=&limit=&marker="""
    found = await request.cloud.db.read(
        claims.debts, agent=request.arg("agent"), limit=_limit(request), marker=request.arg("marker")
    )
    return ok({"debts": found})


async def list_holders(request: Request) -> Response:
    """GET /cumulet/v1/holders: those that wait, with the rule that does and its reason."""
    found = await request.cloud.db.read(claims.waiting, limit=_limit(request), marker=request.arg("marker"))
    return ok({"holders": found})


async def list_orphans(request: Request) -> Response:
    """GET /cumulet/v1/orphans"""
    return ok({"orphans": await request.cloud.db.read(claims.orphans, limit=_limit(request))})


async def summary(request: Request) -> Response:
    """GET /cumulet/v1/summary: how many of everything, and the mode."""
    found, report_only = await request.cloud.db.read(lambda tx: (claims.summary(tx), mode.report_only(tx)))
    return ok({"summary": found, "report_only": report_only})


async def accept(request: Request) -> Response:
    """POST /cumulet/v1/accept: the audit of a restored cloud was seen; it goes on."""
    if not await request.cloud.db.write(mode.leave):
        raise Conflict("The cloud is not report-only: nothing waits to be accepted.")
    return no_content()


# --- agents ---


class Join(msgspec.Struct, forbid_unknown_fields=True):
    """POST /cumulet/v1/tokens"""

    host: str
    renew: bool = False


async def list_agents(request: Request) -> Response:
    """GET /cumulet/v1/agents"""
    return ok({"agents": await request.cloud.db.read(joining.listing)})


async def join(request: Request) -> Response:
    """POST /cumulet/v1/tokens: a token with which a host joins; it is shown this once."""
    asked = await request.struct(Join)
    return created(await request.cloud.db.write(joining.token, asked.host, renew=asked.renew))


async def rotate(request: Request) -> Response:
    """POST /cumulet/v1/keys: user tokens and secrets are encrypted with a new key from now on."""
    return created({"keys": await request.cloud.db.write(credentials.rotate_keys)})


async def destroyed(request: Request) -> Response:
    """POST /cumulet/v1/agents/{agent}/destroyed: it is gone for good, with all that it had."""
    return ok(await request.cloud.db.write(joining.destroyed, request.params["agent"]))


# --- backup ---


async def backup(request: Request) -> Response:
    """GET /cumulet/v1/backup: a backup of the running cloud, as a tar file."""
    cloud = request.cloud
    if cloud.db.dialect != "sqlite" or cloud.backup is None:
        raise Conflict("This cloud's state is in PostgreSQL: back it up with pg_dump.")
    try:
        work = tempfile.TemporaryDirectory(dir=cloud.config.directory, prefix=".backup-")
    except OSError as error:
        raise Unavailable(f"The backup cannot be made: {error.strerror}.") from error
    file = Path(work.name) / "backup.tar"
    try:
        await anyio.to_thread.run_sync(cloud.backup, file)
    except Refused as refused:
        work.cleanup()
        raise Unavailable(refused.message) from refused
    except BaseException:
        work.cleanup()
        raise
    return Response(
        200, stream=_sent(file, work.cleanup), media_type="application/x-tar",
        headers=[("Content-Length", str(file.stat().st_size))],
    )  # fmt: skip


async def _sent(file: Path, done: Callable[[], None]) -> AsyncIterator[bytes]:
    with contextlib.ExitStack() as stack:
        stack.callback(done)
        stream = stack.enter_context(file.open("rb"))
        while piece := await anyio.to_thread.run_sync(stream.read, PIECE):
            yield piece


def _route(method: str, path: str, handler: Any, rule: str) -> Route:
    return Route(method, f"/v1{path}", handler, f"cumulet:{rule}", ADMIN)


AREA = Area(
    name="cumulet",
    prefix="/cumulet",
    dialect=dialects.placement,
    routes=(
        _route("GET", "/faults", list_faults, "faults:list"),
        _route("POST", "/faults", add_fault, "faults:create"),
        _route("DELETE", "/faults", clear_faults, "faults:delete"),
        _route("DELETE", "/faults/{fault}", remove_fault, "faults:delete"),
        _route("GET", "/steps", list_steps, "faults:list"),
        _route("GET", "/claims", list_claims, "claims:list"),
        _route("GET", "/debts", list_debts, "claims:list"),
        _route("GET", "/holders", list_holders, "claims:list"),
        _route("GET", "/orphans", list_orphans, "claims:list"),
        _route("GET", "/summary", summary, "claims:list"),
        _route("GET", "/audit", audit.show, "audit:show"),
        _route("POST", "/audit", audit.fix, "audit:fix"),
        _route("POST", "/accept", accept, "accept"),
        _route("GET", "/agents", list_agents, "agents:list"),
        _route("POST", "/tokens", join, "agents:join"),
        _route("POST", "/keys", rotate, "keys:rotate"),
        _route("POST", "/agents/{agent}/destroyed", destroyed, "agents:destroyed"),
        _route("DELETE", "/agents/{agent}/orphans/{thing}", audit.remove_orphan, "orphans:delete"),
        _route("GET", "/backup", backup, "backup"),
    ),
)
