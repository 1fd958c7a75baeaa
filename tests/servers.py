"""What the tests of servers share: an image, a server that is waited for, a look at everything that there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from cumulet.core import images, volumes
from cumulet.db.engine import Tx
from cumulet.drivers import qcow2
from tests.cloud import TestCloud, until

URL = "/compute/v2.1/servers"
NEWEST = "compute 2.96"
GIB = 1 << 30


async def make_image(cloud: TestCloud, *, owner: str = "admin", **columns: Any) -> str:
    """A public image of an empty disk, active."""
    data = qcow2.empty(GIB)
    upload = cloud.chance.uuid()
    values = {"visibility": "public", "container_format": "bare", "disk_format": "qcow2", **columns}

    def begin(tx: Tx) -> str:
        id = images.create_inner(tx, owner=cloud.project(owner), name="image", **values)
        images.fill(tx, id, {"upload": upload})
        return id

    async with cloud.app.cloud.questions.upload(upload, _pieces(data)) as feeding:
        id = await cloud.db.write(begin)
        await feeding.task
        await until(lambda: _image_status(cloud, id))
    return id


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _image_status(cloud: TestCloud, id: str) -> bool:
    return (
        await cloud.db.read(lambda tx: tx.value("select status from images where id = :id", id=id))
        == "active"
    )


async def make_volume(cloud: TestCloud, *, project: str = "demo", size: int = 1, **columns: Any) -> str:
    """A volume that is available."""
    id = await cloud.db.write(
        volumes.create_inner,
        project_id=cloud.project(project),
        user_id=cloud.user("demo"),
        size=size,
        **columns,
    )
    await until(lambda: _volume_is(cloud, id, "available"))
    return id


async def _volume_is(cloud: TestCloud, id: str, status: str) -> bool:
    return (
        await cloud.db.read(lambda tx: tx.value("select status from volumes where id = :id", id=id)) == status
    )


async def private(cloud: TestCloud) -> str:
    """The network of the project demo."""
    found = await cloud.db.read(lambda tx: tx.value("select id from networks where name = 'private'"))
    assert isinstance(found, str)
    return found


async def attachments(cloud: TestCloud, volume: str) -> list[dict[str, Any]]:
    """The attachments of a volume."""
    return await cloud.db.read(
        lambda tx: tx.all("select * from attachments where volume_id = :id", id=volume)
    )


async def post(cloud: TestCloud, *, as_: str = "demo", version: str = NEWEST, **fields: Any) -> Any:
    """Ask for a server; the answer."""
    hints = fields.pop("hints", None)
    body: dict[str, Any] = {"server": {"name": "s", "flavorRef": "42", "networks": "none", **fields}}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    return await cloud.post(URL, as_=as_, json=body, version=version)


async def boot(cloud: TestCloud, *, status: str = "ACTIVE", as_: str = "demo", **fields: Any) -> str:
    """A server that has the status; its id."""
    answer = await post(cloud, as_=as_, **fields)
    assert answer.status_code == 202, answer.text
    id = str(answer.json()["server"]["id"])
    await wait_for(cloud, id, status, as_=as_)
    return id


async def show(cloud: TestCloud, id: str, *, as_: str = "demo", version: str = NEWEST) -> dict[str, Any]:
    answer = await cloud.get(f"{URL}/{id}", as_=as_, version=version)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["server"]
    return found


async def wait_for(cloud: TestCloud, id: str, status: str, *, as_: str = "demo") -> dict[str, Any]:
    """Wait until nothing is under way and the status is as wanted."""
    last: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal last
        last = await show(cloud, id, as_=as_)
        return last["status"] == status and last["OS-EXT-STS:task_state"] is None

    try:
        await until(there)
    except TimeoutError as error:
        waiting = await cloud.db.read(lambda tx: tx.one("select * from holders where id = :id", id=id))
        raise AssertionError(f"{error}: {last.get('status')} {last.get('fault')} {waiting}") from None
    return last


async def act(
    cloud: TestCloud, id: str, action: str, value: Any = None, *, as_: str = "demo", version: str = NEWEST
) -> Any:
    return await cloud.post(f"{URL}/{id}/action", as_=as_, json={action: value}, version=version)


async def console(cloud: TestCloud, id: str, **more: Any) -> list[str]:
    """The lines of a server's console, without their times."""
    answer = await act(cloud, id, "os-getConsoleOutput", more)
    assert answer.status_code == 200, answer.text
    return [line.split("] ", 1)[1] for line in answer.json()["output"].splitlines()]


async def recorded(cloud: TestCloud, id: str) -> list[str]:
    """The actions of a server, the newest first."""
    answer = await cloud.get(f"{URL}/{id}/os-instance-actions", version=NEWEST)
    return [action["action"] for action in answer.json()["instanceActions"]]


async def events(cloud: TestCloud, id: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """(action, event, result, message) of all that was done to a server, the newest first; an action has one event, or none."""
    listed = await cloud.get(f"{URL}/{id}/os-instance-actions", as_="admin", version=NEWEST)
    found = []
    for action in listed.json()["instanceActions"]:
        path = f"{URL}/{id}/os-instance-actions/{action['request_id']}"
        shown = (await cloud.get(path, as_="admin", version=NEWEST)).json()["instanceAction"]
        (event,) = shown["events"] or [{"event": None, "result": None, "finish_time": None}]
        assert (event["finish_time"] is None) == (event["result"] is None)
        found.append((action["action"], event["event"], event["result"], action["message"]))
    return found


async def host_of(cloud: TestCloud, id: str) -> str:
    """The name of a server's host."""
    return str((await show(cloud, id, as_="admin"))["OS-EXT-SRV-ATTR:host"])


async def allocations(cloud: TestCloud) -> dict[str, tuple[str, str, dict[str, int]]]:
    """consumer → (its type, the host, what it uses) of all allocations."""
    found = {}
    providers = (
        await cloud.get("/placement/resource_providers", as_="admin", version="placement 1.38")
    ).json()["resource_providers"]
    for provider in providers:
        path = f"/placement/resource_providers/{provider['uuid']}/allocations"
        held = (await cloud.get(path, as_="admin", version="placement 1.38")).json()["allocations"]
        for consumer, one in held.items():
            whole = await cloud.get(
                f"/placement/allocations/{consumer}", as_="admin", version="placement 1.38"
            )
            found[consumer] = (whole.json()["consumer_type"], provider["name"], one["resources"])
    return found


async def moves(cloud: TestCloud, id: str) -> list[dict[str, Any]]:
    """The moves of a server, the newest first."""
    listed = await cloud.get(f"/compute/v2.1/os-migrations?instance_uuid={id}", as_="admin", version=NEWEST)
    found: list[dict[str, Any]] = listed.json()["migrations"]
    return found


async def remove(cloud: TestCloud, id: str, *, as_: str = "demo") -> None:
    """Delete the server and wait until it is gone."""
    answer = await cloud.delete(f"{URL}/{id}", as_=as_)
    assert answer.status_code == 204, answer.text
    await wait_until_gone(cloud, id, as_=as_)


async def wait_until_gone(cloud: TestCloud, id: str, *, as_: str = "demo") -> None:
    async def gone() -> bool:
        return (await cloud.get(f"{URL}/{id}", as_=as_)).status_code == 404

    await until(gone)


#: Tables in which something may stay when a server has come and gone.
_KEPT = frozenset(
    {"actions", "action_events", "deleted_servers", "numbers", "agents", "tokens", "project_locks"}
)


async def everything(cloud: TestCloud) -> dict[str, int]:
    """How many rows each table has, but for those that remember."""
    from cumulet.db.schema import metadata

    def count(tx: Tx) -> dict[str, int]:
        return {
            table.name: int(tx.value(f"select count(*) from {table.name}"))
            for table in metadata.sorted_tables
            if table.name not in _KEPT
        }

    return await cloud.db.read(count)


async def settled(cloud: TestCloud) -> dict[str, int]:
    """``everything``, once nothing is under way."""

    def busy(tx: Tx) -> bool:
        return bool(
            tx.value("select count(*) from holders where due is not null")
            + tx.value(
                "select count(*) from claims where not wanted or seen <> 'present' or acted < revision"
            )
        )

    async def rests() -> bool:
        return not await cloud.db.read(busy)

    await until(rests)
    return await everything(cloud)


async def wait_for_everything(cloud: TestCloud, before: dict[str, int]) -> None:
    """Wait until there is as much of everything as before: what was left to an agent is soon removed."""
    last: dict[str, int] = {}

    async def same() -> bool:
        nonlocal last
        last = await everything(cloud)
        return last == before

    try:
        await until(same)
    except TimeoutError:
        raise AssertionError(
            {name: (before[name], n) for name, n in last.items() if n != before[name]}
        ) from None
