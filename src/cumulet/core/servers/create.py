"""Making servers. Everything that a request can be refused for is checked here, in one transaction.

Rows are all that is written: the server, its block devices with their volumes and attachments, its ports.
Where it runs is chosen afterwards, by the reconciler. Whatever refuses the request undoes all of it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cumulet.chance import Chance
from cumulet.core import flavors, history, images, keypairs, numbers, quota, scheduling, volumes
from cumulet.core.servers import boot, devices, networking, usage
from cumulet.core.servers.devices import Device
from cumulet.core.servers.networking import Nic
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound, OverQuota
from cumulet.reconcile import holders
from cumulet.values import Caller

#: Servers of one request at the most.
MOST = 1000
_LETTERS = string.ascii_letters + string.digits
_PASSWORD_LENGTH = 12


class New(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for."""

    name: str
    flavor: str
    image: str | None = None
    devices: tuple[Device, ...] = ()
    #: The interfaces, or "none", or "auto"; None for the project's only network.
    networks: tuple[Nic, ...] | str | None = None
    security_groups: tuple[str, ...] = ()
    description: str | None = None
    hostname: str | None = None
    key_name: str | None = None
    user_data: str | None = None
    config_drive: bool = False
    #: Files for the config drive: (path, contents in base64).
    personality: tuple[tuple[str, str], ...] = ()
    metadata: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    zone: str | None = None
    #: The only host that will do, and the name of its hypervisor, which is the same here.
    host: str | None = None
    hints: Mapping[str, Any] = {}
    min_count: int = 1
    max_count: int = 1
    password: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    disk_config: str = "MANUAL"
    certificates: tuple[str, ...] | None = None
    #: The caller knows of volumes with several attachments (since 2.60).
    multiattach: bool = True
    #: The caller may use networks to the outside that are not shared.
    external: bool = False
    #: The caller may use a flavor without a disk for a server that boots from an image.
    zero_disk: bool = False
    build_time: float = 600.0


class Made(msgspec.Struct, frozen=True):
    """What was made."""

    ids: tuple[str, ...]
    reservation_id: str
    password: str
    disk_config: str


class _Plan(msgspec.Struct, frozen=True):
    """What all servers of the request have in common, looked up and checked."""

    flavor: Mapping[str, Any]
    devices: Sequence[Device]
    nics: Sequence[Nic]
    group_ids: Sequence[str]
    key_data: str | None
    image_properties: Mapping[str, Any]
    group: Row | None
    request: Mapping[str, Any]
    reservation_id: str
    password: str


def create(tx: Tx, caller: Caller, new: New) -> Made:
    """Make the servers.

    Raises Invalid (something that is named is not there or does not fit), Forbidden, OverQuota, Conflict
    (ambiguous, or used by something else); then nothing at all was written.
    """
    if caller.project_id is None:
        raise Forbidden("Servers belong to a project; use a token that is scoped to one.")
    quota.lock_project(tx, caller.project_id)
    flavor = _flavor(tx, caller, new)
    count = _count(tx, caller, new, flavor)
    plan = _plan(tx, caller, new, flavor, count)
    ids = tuple(_one(tx, caller, new, plan, index, count) for index in range(count))
    return Made(ids, plan.reservation_id, plan.password, new.disk_config)


# --- what is asked for, looked up ---


def _flavor(tx: Tx, caller: Caller, new: New) -> dict[str, Any]:
    try:
        found = flavors.find(tx, caller, new.flavor)
    except NotFound as error:
        raise Invalid(error.message) from None
    if found.disabled:
        raise Invalid(f"Flavor {new.flavor} could not be found.")
    return snapshot_of(found)


def snapshot_of(flavor: flavors.Flavor) -> dict[str, Any]:
    """A flavor as its servers remember it."""
    return {
        "flavorid": flavor.flavorid,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram,
        "disk": flavor.disk,
        "ephemeral": flavor.ephemeral,
        "swap": flavor.swap,
        "rxtx_factor": flavor.rxtx_factor,
        "extra_specs": dict(flavor.extra_specs),
    }


def _count(tx: Tx, caller: Caller, new: New, flavor: Mapping[str, Any]) -> int:
    """How many servers there will be: ``max_count``, or as many as the quota allows but ``min_count``."""
    if new.max_count > MOST:
        raise Invalid(f"max_count must be at most {MOST}, found {new.max_count}.")
    if new.min_count > new.max_count:
        raise Invalid("min_count must be <= max_count")
    if new.max_count > 1:
        _check_several(new)
    check_metadata(tx, caller, new.metadata)
    count = min(new.max_count, max(_room(tx, caller, flavor, new.max_count), new.min_count))
    check_quota(tx, str(caller.project_id), caller.user_id, flavor, count)
    return count


#: Resource of the quota → the flavor's part of it; an instance is one instance.
_PARTS = {"instances": None, "cores": "vcpus", "ram": "ram"}


def _budgets(tx: Tx, project: str, user_id: str) -> Iterator[tuple[quota.Limits, Mapping[str, int]]]:
    """Limits and what is used of them: the project's, and the user's within it. What has no limit is not counted."""
    limits = quota.limits(tx, "compute", project)
    if any(limits[name] != quota.UNLIMITED for name in _PARTS):
        yield limits, usage.used(tx, project)
    own = quota.overrides(tx, "compute", quota.user_owner(project, user_id))
    if any(own.get(name, quota.UNLIMITED) != quota.UNLIMITED for name in _PARTS):
        yield own, usage.used(tx, project, user_id)


def _room(tx: Tx, caller: Caller, flavor: Mapping[str, Any], most: int) -> int:
    """How many servers of the flavor fit into the quota, up to ``most``."""
    if most == 1:
        return 1
    for limits, used in _budgets(tx, str(caller.project_id), caller.user_id):
        for name, part in _PARTS.items():
            each = flavor[part] if part else 1
            if each and limits.get(name, quota.UNLIMITED) != quota.UNLIMITED:
                most = min(most, max(limits[name] - used[name], 0) // each)
    return most


def check_quota(tx: Tx, project: str, user_id: str, flavor: Mapping[str, Any], count: int = 1) -> None:
    """Raise OverQuota if the project, or the user in it, may not have so many more servers."""
    asked = {name: count * (flavor[part] if part else 1) for name, part in _PARTS.items()}
    for limits, used in _budgets(tx, project, user_id):
        quota.check(limits, used, asked)


def check_growth(tx: Tx, project: str, user_id: str, more: Mapping[str, int]) -> None:
    """Raise OverQuota if a server of the project cannot have that much more of ``vcpus`` and ``ram``."""
    asked = {name: more[part] for name, part in _PARTS.items() if part is not None and more.get(part)}
    if asked:
        quota.lock_project(tx, project)
        for limits, used in _budgets(tx, project, user_id):
            quota.check(limits, used, asked)


def check_metadata(tx: Tx, caller: Caller, metadata: Mapping[str, str]) -> None:
    """Raise OverQuota for more metadata items than the project's servers may have each."""
    limit = (
        quota.limits(tx, "compute", str(caller.project_id))["metadata_items"] if metadata else quota.UNLIMITED
    )
    if limit != quota.UNLIMITED and len(metadata) > limit:
        raise OverQuota(f"Maximum number of metadata items exceeds {limit}: {len(metadata)} were given.")


def check_files(tx: Tx, caller: Caller, files: Sequence[tuple[str, str]]) -> None:
    """Raise OverQuota for more, longer or deeper injected files than the project's servers may have."""
    if not files:
        return
    limits = quota.limits(tx, "compute", str(caller.project_id))
    longest_path = max(len(path.encode()) for path, _ in files)
    longest = max(len(contents) * 3 // 4 for _, contents in files)
    for name, asked in (
        ("injected_files", len(files)),
        ("injected_file_path_bytes", longest_path),
        ("injected_file_content_bytes", longest),
    ):
        if limits[name] != quota.UNLIMITED and asked > limits[name]:
            raise OverQuota(f"Quota exceeded for {name}: {asked} asked for, limit {limits[name]}.")


def _check_several(new: New) -> None:
    """Raise Invalid for what only one server can have."""
    if new.hostname is not None:
        raise Invalid("Unable to allocate a single hostname to multiple instances.")
    if any(device.source_type == "volume" for device in new.devices):
        raise Invalid("Cannot attach one or more volumes to multiple instances.")
    nics = new.networks if isinstance(new.networks, tuple) else ()
    if any(nic.port for nic in nics):
        raise Invalid("Unable to launch multiple instances with a single configured port ID.")
    if any(nic.fixed_ip for nic in nics):
        raise Invalid("max_count cannot be greater than 1 if an fixed_ip is specified.")


def _plan(tx: Tx, caller: Caller, new: New, flavor: Mapping[str, Any], count: int) -> _Plan:
    check_files(tx, caller, new.personality)
    image = boot.image(tx, caller, new.image) if new.image is not None else None
    imaged = devices.of_image(image.properties) if image else ()
    sources = [
        _source(tx, caller, new, flavor, device, image)
        for device in devices.complete(new.devices, new.image, flavor, imaged)
    ]
    properties: Mapping[str, Any] = {
        **(image.properties if image else {}),
        **next(known for device, known in sources if device.is_root),
    }
    password = new.password or make_password(tx.chance)
    zone, host = _destination(tx, new)
    return _Plan(
        flavor=flavor,
        devices=devices.named(
            (device for device, _ in sources), str(properties.get("hw_disk_bus") or "virtio")
        ),
        nics=networking.choose(tx, caller, new.networks, external=new.external),
        group_ids=networking.groups(tx, str(caller.project_id), new.security_groups),
        key_data=_key(tx, caller, new.key_name),
        image_properties=properties,
        group=_group(tx, caller, new, count),
        request={
            "zone": zone,
            "host": host,
            "hints": dict(new.hints),
            # The guest reads it from the config drive, so it is kept only with one.
            **({"admin_password": password} if new.config_drive else {}),
            **({"files": [list(file) for file in new.personality]} if new.personality else {}),
        },
        reservation_id=f"r-{''.join(_letters(tx.chance, 8)).lower()}",
        password=password,
    )


def _key(tx: Tx, caller: Caller, name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return keypairs.find(tx, caller.user_id, name).public_key
    except NotFound:
        raise Invalid(f"Invalid key_name provided: there is no key pair {name}.") from None


def _source(
    tx: Tx, caller: Caller, new: New, flavor: Mapping[str, Any], device: Device, image: images.Image | None
) -> tuple[Device, Mapping[str, Any]]:
    """A device with the size of what it is copied from, and what is known of that. ``image``: the server's."""
    if device.volume_type:
        boot.volume_type(tx, caller, device.volume_type)
    size = device.size
    known: Mapping[str, Any] = {}
    if device.source_type == "image":
        if image is None or image.id != device.uuid:
            image = boot.image(tx, caller, str(device.uuid))
        known = _from_image(new, flavor, device, image)
    elif device.source_type == "snapshot":
        snapshot = boot.snapshot(tx, caller, str(device.uuid))
        size = size or snapshot["size"]
        if size < snapshot["size"]:
            raise devices.invalid(
                f"volume size {size} GiB is smaller than the snapshot's, {snapshot['size']} GiB."
            )
        known = _remembered(flavor, snapshot) if device.is_root else {}
    elif device.source_type == "volume":
        volume = boot.volume(tx, caller, str(device.uuid))
        size = volume["size"]
        if volume["multiattach"] and not new.multiattach:
            raise Invalid("Multiattach volumes are only supported starting with compute API version 2.60.")
        known = _remembered(flavor, volume) if device.is_root else {}
    elif device.is_root and device.destination_type != "volume":
        raise Invalid("Block Device blank is not bootable.")
    return msgspec.structs.replace(device, size=size), known


def _from_image(
    new: New, flavor: Mapping[str, Any], device: Device, image: images.Image
) -> Mapping[str, Any]:
    """The properties of an image that fits. Raises Invalid, Forbidden."""
    if device.destination_type == "volume":
        boot.fits_volume(int(device.size or 0), boot.size_of(image), image.min_disk)
    else:
        boot.fits_disk(flavor, image, zero_disk=new.zero_disk)
    if device.is_root:
        boot.fits_memory(flavor, image.min_ram)
    return image.properties


def _remembered(flavor: Mapping[str, Any], volume: Row) -> Mapping[str, Any]:
    metadata = boot.bootable(volume)
    boot.fits_memory(flavor, int(metadata.get("min_ram") or 0))
    boot.fits_volume(volume["size"], 0, int(metadata.get("min_disk") or 0))
    return metadata


def _destination(tx: Tx, new: New) -> tuple[str | None, str | None]:
    """The zone and the host that were asked for. Raises Invalid for ones that there are not."""
    if new.host is not None:
        known = tx.one(
            "select 1 from agents where kind = 'host' and name = :name and not destroyed", name=new.host
        )
        if known is None:
            raise Invalid(f"Compute host {new.host} could not be found.")
        return None, new.host
    if new.zone is not None and new.zone not in open_zones(tx):
        raise Invalid(
            f"The requested availability zone is not available: {new.zone} is none of {', '.join(open_zones(tx)) or 'none'}."
        )
    return new.zone, None


def open_zones(tx: Tx) -> list[str]:
    """Names of the availability zones that have a host that is not disabled."""
    zones = scheduling.zones_of_hosts(tx)
    rows = tx.all("select name, zone from agents where kind = 'host' and not disabled and not destroyed")
    return sorted({zones.get(row["name"]) or row["zone"] for row in rows})


def _group(tx: Tx, caller: Caller, new: New, count: int) -> Row | None:
    """The server group that a hint names, with room for so many more members. Raises Invalid, OverQuota."""
    hint = new.hints.get("group")
    id = hint[0] if isinstance(hint, list) and hint else hint
    if not id:
        return None
    row = tx.one(f"select * from server_groups where id = :id{tx.for_update}", id=id)
    if row is None or not caller.sees(row["project_id"]):
        raise Invalid(f"Instance group {id} could not be found.")
    limit = quota.limits(tx, "compute", str(caller.project_id), caller.user_id)["server_group_members"]
    members = int(
        tx.value(
            "select count(*) from servers where group_id = :id and user_id = :user",
            id=id,
            user=caller.user_id,
        )
    )
    if limit != quota.UNLIMITED and members + count > limit:
        raise OverQuota(f"Quota exceeded, too many servers in group {id}: {members} of {limit} are used.")
    return row


# --- one server ---


def _one(tx: Tx, caller: Caller, new: New, plan: _Plan, index: int, count: int) -> str:
    id = tx.uuid()
    row = _row(tx, caller, new, plan, index, count, id)
    holders.create(tx, id, "server", caller.project_id)
    # A host is chosen in a transaction of its own: the caller does not wait for it.
    tx.unsettled.pop(id, None)
    tx.insert("servers", **row)
    for tag in dict.fromkeys(new.tags):
        tx.insert("server_tags", server_id=id, tag=tag)
    for position, device in enumerate(plan.devices):
        _device(tx, caller, row, device, position)
    for position, nic in enumerate(plan.nics):
        networking.plug(tx, caller, row, nic, position=position, group_ids=plan.group_ids)
    history.begin(tx, id, "create", caller)
    holders.later(tx, id)
    return id


def _row(tx: Tx, caller: Caller, new: New, plan: _Plan, index: int, count: int, id: str) -> Row:
    suffix = f"-{index + 1}" if count > 1 else ""
    hostname = new.hostname or hostname_of(new.name, suffix) or f"server-{id}"
    root = boot.root_of(plan.devices)
    return {
        "id": id,
        "project_id": caller.project_id,
        "user_id": caller.user_id,
        "name": new.name + suffix,
        "hostname": hostname,
        "description": new.description,
        "desired": "active",
        "vm_state": "building",
        "task_state": "scheduling",
        "flavor": dict(plan.flavor),
        "flavorid": plan.flavor["flavorid"],
        "vcpus": plan.flavor["vcpus"],
        "ram": plan.flavor["ram"],
        "image_id": new.image,
        "image_properties": dict(plan.image_properties),
        "key_name": new.key_name,
        "key_data": plan.key_data,
        "user_data": new.user_data,
        "config_drive": new.config_drive,
        "metadata": dict(new.metadata),
        "zone": plan.request["zone"],
        "request": dict(plan.request),
        "reservation_id": plan.reservation_id,
        "launch_index": index,
        "root_device_name": root.device_name,
        "access_ip_v4": new.access_ip_v4,
        "access_ip_v6": new.access_ip_v6,
        "disk_config": new.disk_config,
        "trusted_image_certificates": list(new.certificates) if new.certificates else None,
        "counters": {},
        "group_id": plan.group["id"] if plan.group else None,
        "created_at": tx.now,
        "updated_at": tx.now,
        "build_until": tx.now + new.build_time,
        "number": numbers.following(tx, "servers"),
    }


def hostname_of(name: str, suffix: str = "") -> str:
    """A name as a host name: what is not allowed in one goes. "" if nothing is left."""
    text = re.sub(r"[ _]", "-", name.encode("ascii", "ignore").decode())
    text = re.sub(r"[^\w.-]+", "", text).lower().replace(".", "-")
    text = text[: 63 - len(suffix)].strip(".-")
    return text + suffix if text else ""


def _device(tx: Tx, caller: Caller, server: Row, device: Device, position: int) -> None:
    volume_id = None
    if device.destination_type == "volume":
        volume_id = device.uuid if device.source_type == "volume" else _volume(tx, caller, server, device)
        try:
            volumes.reserve(tx, str(volume_id), server_id=server["id"], project_id=server["project_id"])
        except NotFound as error:
            raise Invalid(error.message) from None
    tx.insert(
        "block_devices", id=tx.uuid(), server_id=server["id"], position=position, source_type=device.source_type,
        destination_type=device.destination_type, device_name=device.device_name,
        device_type=device.device_type or ("disk" if device.is_root else None), disk_bus=device.disk_bus,
        guest_format=device.guest_format, boot_index=device.boot_index, size=device.size, tag=device.tag,
        delete_on_termination=device.delete_on_termination,
        image_id=device.uuid if device.source_type == "image" else None,
        snapshot_id=device.uuid if device.source_type == "snapshot" else None,
        volume_type=device.volume_type, volume_id=volume_id, created_at=tx.now,
    )  # fmt: skip


def _volume(tx: Tx, caller: Caller, server: Row, device: Device) -> str:
    """A volume of ours, made from an image, a snapshot or nothing."""
    source: dict[str, Any] = {}
    if device.source_type == "image":
        image = boot.image(tx, caller, str(device.uuid))
        source = {"image_id": image.id, "bootable": True, "image_metadata": boot.image_metadata(image)}
    elif device.source_type == "snapshot":
        snapshot = boot.snapshot(tx, caller, str(device.uuid))
        source = {
            "snapshot_id": snapshot["id"],
            "bootable": snapshot["bootable"],
            "image_metadata": snapshot["image_metadata"],
        }
    type_id = boot.volume_type(tx, caller, device.volume_type) if device.volume_type else None
    return volumes.create_inner(
        tx, project_id=server["project_id"], user_id=server["user_id"], size=int(device.size or 0), name="",
        description="", volume_type_id=type_id, **source,
    )  # fmt: skip


def make_password(chance: Chance) -> str:
    """A password that nobody guesses, for a guest whose user gave none."""
    return "".join(_letters(chance, _PASSWORD_LENGTH))


def _letters(chance: Chance, length: int) -> Sequence[str]:
    number = chance.below(len(_LETTERS) ** length)
    found = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        found.append(_LETTERS[digit])
    return found
