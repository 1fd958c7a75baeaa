"""Block Storage's services as administrators see them: back ends, and who places volumes on them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cumulet.core.volumes import backends
from cumulet.core.volumes.backends import Backend
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid, NotFound

VOLUME = "cinder-volume"
SCHEDULER = "cinder-scheduler"
#: Each back end writes the backups of its volumes.
BACKUP = "cinder-backup"
#: The scheduler is whatever processes of the cloud reconcile; there is one of it by this name.
SCHEDULER_HOST = "cumulet"


class Service(msgspec.Struct, frozen=True):
    """A service."""

    binary: str
    host: str
    zone: str
    up: bool
    disabled: bool
    disabled_reason: str | None
    updated_at: float
    frozen: bool = False
    backend: Backend | None = None


def services(tx: Tx, *, host: str | None = None, binary: str | None = None) -> list[Service]:
    """All services, or those of a host (with or without its back end's name) or of a kind."""
    known = backends.listing(tx)
    found = [_service(backend) for backend in known]
    found += [
        Service(BACKUP, one.host.split("@")[0], one.zone, one.up, False, None, one.seen_at or one.updated_at)
        for one in known
    ]
    found.insert(0, Service(SCHEDULER, SCHEDULER_HOST, "nova", True, False, None, tx.now))
    return [
        one
        for one in found
        if (host is None or host in (one.host, one.host.split("@", 1)[0])) and binary in (None, one.binary)
    ]


def _service(backend: Backend) -> Service:
    return Service(
        binary=VOLUME,
        host=backend.host,
        zone=backend.zone,
        up=backend.up,
        disabled=backend.disabled,
        disabled_reason=backend.disabled_reason,
        updated_at=backend.seen_at or backend.updated_at,
        frozen=backend.frozen,
        backend=backend,
    )


def _one(tx: Tx, host: str, binary: str) -> Backend:
    found = services(tx, host=host, binary=binary)
    if not found:
        raise NotFound(f"Service {binary} could not be found on host {host}.")
    if found[0].backend is None:
        raise Invalid(f"The service {binary} cannot be disabled: nobody else does its work.")
    return found[0].backend


def switch(tx: Tx, host: str, binary: str, *, disabled: bool, reason: str | None) -> Service:
    """Take a back end out of use for new volumes, or into it again. Raises NotFound, Invalid."""
    backend = _one(tx, host, binary)
    tx.update("agents", backend.agent, disabled=disabled, disabled_reason=reason if disabled else None)
    return services(tx, host=backend.host, binary=binary)[0]


def freeze(tx: Tx, host: str, *, frozen: bool) -> None:
    """Make and remove nothing on a back end by request, or again.

    Raises Invalid if it is so already, and, as upstream, for a host that there is not.
    """
    try:
        backend = _one(tx, host, VOLUME)
    except NotFound as error:
        raise Invalid(f"Invalid input received: {error.message}") from None
    if backend.frozen == frozen:
        raise Invalid(
            f"Invalid input received: the service on {backend.host} is {'' if frozen else 'not '}frozen already."
        )
    if frozen:
        tx.insert("frozen_backends", agent=backend.agent)
    else:
        tx.run("delete from frozen_backends where agent = :agent", agent=backend.agent)


class Usage(msgspec.Struct, frozen=True):
    """What a project has on a back end."""

    project: str
    volumes: int
    volume_gb: int
    snapshots: int
    snapshot_gb: int


def usage_of(tx: Tx, host: str) -> tuple[Backend, list[Usage]]:
    """A back end and what each project has there. Raises NotFound."""
    backend = backend_of(tx, host)
    volumes = tx.all(
        "select project_id, count(*) as n, sum(size) as gb from volumes where agent = :agent group by project_id",
        agent=backend.agent,
    )
    snapshots = tx.all(
        "select s.project_id, count(*) as n, sum(s.size) as gb from snapshots s join volumes v on v.id = s.volume_id "
        "where v.agent = :agent group by s.project_id",
        agent=backend.agent,
    )
    return backend, _by_project(volumes, snapshots)


def _by_project(volumes: Sequence[Row], snapshots: Sequence[Row]) -> list[Usage]:
    nothing = {"n": 0, "gb": 0}
    of_volumes = {row["project_id"]: row for row in volumes}
    of_snapshots = {row["project_id"]: row for row in snapshots}
    found = []
    for project in sorted({*of_volumes, *of_snapshots}):
        volume, snapshot = of_volumes.get(project, nothing), of_snapshots.get(project, nothing)
        found.append(
            Usage(project, int(volume["n"]), int(volume["gb"]), int(snapshot["n"]), int(snapshot["gb"]))
        )
    return found


def backend_of(tx: Tx, host: str) -> Backend:
    """The back end with that host or pool name. Raises NotFound."""
    for backend in backends.listing(tx):
        if host in (backend.host, backend.pool):
            return backend
    raise NotFound(f"Host {host} could not be found.")
