"""What a guest is made of, and how QEMU is told. Pure.

QEMU never opens a file by its name. Each is opened here, handed over, and named as a set of file descriptors
("/dev/fdset/3"), so a guest that breaks out of its emulator can reach no other file. Every format is named, and
every node names its backing node or has none: what the header of a file says is not followed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from cumulet.drivers.base import Failed
from cumulet.wire.agent import Claim, Need

Format = Literal["raw", "qcow2"]
#: Models of network cards, as image properties name them.
NIC_MODELS = {
    "virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e", "rtl8139": "rtl8139", "ne2k_pci": "ne2k_pci",
    "pcnet": "pcnet",
}  # fmt: skip
#: Devices of one guest at the most: the machine's bus has 32 places, and some of them are taken.
DEVICES = 26
#: What a device must be able to be unplugged again.
_PLUGGED = ("v", "n")


class Image(msgspec.Struct, frozen=True):
    """A file with a disk in it."""

    path: str
    format: Format


class Drive(msgspec.Struct, frozen=True):
    """A disk of the guest. ``id`` names the device and its node."""

    id: str
    image: Image
    #: What is read where the disk has nothing of its own.
    base: Image | None = None
    readonly: bool = False
    serial: str = ""
    #: Place in the order of what the guest boots from.
    boot: int | None = None
    #: What it stands for, of a volume: it can be plugged in and out.
    part: str = ""
    #: Bytes that it should have at least; None: what it has.
    size: int | None = None
    #: What it is copied into, while it is to be swapped; and the drive that it takes the place of.
    into: Drive | None = None
    was: str = ""

    @property
    def pluggable(self) -> bool:
        return bool(self.part)


class Nic(msgspec.Struct, frozen=True):
    """A network card, on a network of QEMU's own."""

    id: str
    part: str
    mac: str
    model: str
    network: Mapping[str, Any]


class Machine(msgspec.Struct, frozen=True):
    """All of a guest."""

    id: str
    server: str
    vcpus: int
    memory_mb: int
    drives: tuple[Drive, ...]
    nics: tuple[Nic, ...]


def short(prefix: str, part: str) -> str:
    """A name of a device; QEMU's nodes have names of 31 characters at the most."""
    return prefix + part.replace("-", "")[:24]


def pluggable(id: str) -> bool:
    """True if it is the name of a volume or a network card."""
    return id[:1] in _PLUGGED and len(id) == 25


def volume_id(part: str) -> str:
    return short("v", part)


def nic_id(part: str) -> str:
    return short("n", part)


def machine(claim: Claim, disks: Mapping[str, Drive], *, closed: bool) -> Machine:
    """The machine that a guest's claim asks for. ``disks``: the disks of this host by part.

    Raises Failed for what this driver cannot do.
    """
    spec = claim.spec
    properties = spec.get("image_properties") or {}
    if str(properties.get("hw_firmware_type", "bios")).lower() != "bios":
        raise Failed(
            f"firmware {properties['hw_firmware_type']} is not supported on this host; bios is", fatal=True
        )
    volumes = [_volume(volume, claim.needs) for volume in spec.get("volumes", ())]
    model = _model(properties)
    nics = tuple(
        Nic(nic_id(nic["part"]), nic["part"], nic["mac"], model, network(nic, closed=closed))
        for nic in spec.get("nics", ())
    )
    found = Machine(
        id=claim.id,
        server=claim.holder or claim.id,
        vcpus=int(spec["vcpus"]),
        memory_mb=int(spec["memory_mb"]),
        drives=tuple(_ordered(spec.get("disks", ()), disks, volumes)),
        nics=nics,
    )
    if len(found.drives) + len(found.nics) > DEVICES:
        raise Failed(
            f"{len(found.drives)} disks and {len(found.nics)} network cards were asked for; "
            f"a guest has room for {DEVICES} devices",
            fatal=True,
        )
    return found


def _ordered(parts: Sequence[str], disks: Mapping[str, Drive], volumes: Sequence[Drive]) -> Iterator[Drive]:
    """Disks in the order in which the guest finds them: what it boots from, its other disks, volumes, the config drive."""
    local = [disks[part] for part in parts if part in disks]
    if missing := [part for part in parts if part not in disks]:
        raise Failed(f"the disk {missing[0]} is not here")
    first = [drive for drive in volumes if drive.boot == 1]
    yield from first
    yield from (drive for drive in local if drive.id != "config")
    yield from (drive for drive in volumes if drive not in first)
    yield from (drive for drive in local if drive.id == "config")


def _volume(spec: Mapping[str, Any], needs: Sequence[Need]) -> Drive:
    need = next((need for need in needs if need.kind == spec["kind"] and need.part == spec["part"]), None)
    if need is None:
        raise Failed(f"nothing says how volume {spec['volume']} is reached")
    facts = need.facts
    if facts.get("driver") != "file":
        raise Failed(
            f"volume {spec['volume']} is reached by {facts.get('driver')}, which this host cannot open",
            fatal=True,
        )
    if facts.get("format") not in ("raw", "qcow2"):
        raise Failed(
            f"volume {spec['volume']} has the format {facts.get('format')}, which is not taken", fatal=True
        )
    if spec.get("bus") not in (None, "virtio"):
        raise Failed(f"the bus {spec['bus']} is not supported on this host; virtio is", fatal=True)
    boot = spec.get("boot_index")
    return Drive(
        id=volume_id(spec["part"]),
        image=Image(str(facts["path"]), facts["format"]),
        readonly=bool(spec.get("readonly")),
        serial=str(spec.get("serial") or spec["volume"]),
        boot=boot + 1 if boot is not None and boot >= 0 else None,
        part=spec["part"],
        size=int(spec["size_gb"]) << 30 if spec.get("size_gb") else None,
        into=_volume(spec["into"], needs) if "into" in spec else None,
        was=volume_id(spec["from"]) if "from" in spec else "",
    )


def _model(properties: Mapping[str, Any]) -> str:
    name = str(properties.get("hw_vif_model") or "virtio").lower()
    if name not in NIC_MODELS:
        raise Failed(
            f"network cards of the model {name} are not supported on this host; {', '.join(NIC_MODELS)} are",
            fatal=True,
        )
    return NIC_MODELS[name]


def network(nic: Mapping[str, Any], *, closed: bool) -> dict[str, Any]:
    """A network of QEMU's own for one card, whose DHCP gives the guest the port's first IPv4 address.

    ``closed``: it leads nowhere. An open one leads out by the host's own connections, and to what listens on the
    host's loopback address.
    """
    found: dict[str, Any] = {"restrict": closed, "ipv6": False}
    for one in nic.get("addresses", ()):
        address = ipaddress.ip_address(one["address"])
        if isinstance(address, ipaddress.IPv4Address):
            return {**found, **_range(address)}
    return found


def _range(address: ipaddress.IPv4Address) -> dict[str, Any]:
    """A range around the address, with two more for what QEMU plays itself."""
    for prefix in (24, 16):
        around = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
        assert isinstance(around, ipaddress.IPv4Network)
        if address not in (around.network_address, around.broadcast_address):
            break
    free = [one for i in range(1, 5) if (one := around.network_address + i) != address]
    return {"net": str(around), "host": str(free[0]), "dns": str(free[1]), "dhcpstart": str(address)}


# --- for QEMU ---


class File(msgspec.Struct, frozen=True):
    """A file that a node needs open; ``node`` is the node's name."""

    node: str
    image: Image
    writable: bool
    #: Something is read through it; a file that stands alone must not name another.
    layered: bool = False


def files(drive: Drive) -> list[File]:
    """What must be open for a drive."""
    found = [File(f"{drive.id}-f", drive.image, not drive.readonly, drive.base is not None)]
    if drive.base is not None:
        found.append(File(f"{drive.id}-bf", drive.base, False))
    return found


def nodes(drive: Drive, sets: Mapping[str, int]) -> list[dict[str, Any]]:
    """The nodes of a drive, in the order in which they are made. ``sets``: the set of each open file, by its node."""
    found: list[dict[str, Any]] = []
    if drive.base is not None:
        found.append(_file(f"{drive.id}-bf", sets, writable=False))
        found.append(
            _format(f"{drive.id}-b", drive.base.format, f"{drive.id}-bf", backing=None, writable=False)
        )
    found.append(_file(f"{drive.id}-f", sets, writable=not drive.readonly))
    backing = f"{drive.id}-b" if drive.base is not None else None
    found.append(_format(drive.id, drive.image.format, f"{drive.id}-f", backing, writable=not drive.readonly))
    return found


def view(drive: Drive, sets: Mapping[str, int], size: int) -> list[dict[str, Any]]:
    """The nodes of a drive of which the first ``size`` bytes are seen."""
    *below, whole = nodes(drive, sets)
    seen = {
        "node-name": drive.id, "driver": "raw", "file": f"{drive.id}-q", "size": size, "read-only": drive.readonly,
        "discard": "unmap",
    }  # fmt: skip
    return [*below, {**whole, "node-name": f"{drive.id}-q"}, seen]


def _file(node: str, sets: Mapping[str, int], *, writable: bool) -> dict[str, Any]:
    return {
        "node-name": node, "driver": "file", "filename": f"/dev/fdset/{sets[node]}", "read-only": not writable,
        "discard": "unmap",
    }  # fmt: skip


def _format(node: str, format: Format, file: str, backing: str | None, *, writable: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node-name": node,
        "driver": format,
        "file": file,
        "read-only": not writable,
        "discard": "unmap",
    }
    return {**found, "backing": backing} if format == "qcow2" else found


def drive_device(drive: Drive) -> dict[str, Any]:
    """The device of a drive."""
    found: dict[str, Any] = {"driver": "virtio-blk-pci", "id": drive.id, "drive": drive.id}
    if drive.serial:
        found["serial"] = drive.serial
    if drive.boot is not None:
        found["bootindex"] = drive.boot
    return found


def nic_device(nic: Nic) -> dict[str, Any]:
    """The device of a network card."""
    return {"driver": nic.model, "id": nic.id, "netdev": nic.id, "mac": nic.mac, "romfile": ""}


class Fds(msgspec.Struct, frozen=True):
    """Open files that QEMU inherits: of the drives by node, the console's log, listening sockets by name."""

    files: Mapping[str, int]
    console: int
    sockets: Mapping[str, int]


def mark(id: str) -> str:
    """The argument by which the process of a guest is known."""
    return f"guest=cumulet-{id}"


def command(program: str, machine: Machine, accelerator: str, fds: Fds) -> list[str]:
    """QEMU's command line."""
    sets = {node: i for i, node in enumerate(fds.files, 2)}
    argv = [
        program, "-name", mark(machine.id), "-uuid", machine.server,
        "-machine", "pc", *_accelerator(accelerator), "-m", str(machine.memory_mb), "-smp", str(machine.vcpus),
        "-nodefaults", "-no-user-config", "-display", "none", "-vga", "std", "-boot", "strict=on",
        # What images look for to see that they run in a cloud of this kind.
        "-smbios", f"type=1,manufacturer=Cumulet,product=OpenStack Compute,serial={machine.server}",
        "-object", "rng-random,filename=/dev/urandom,id=rng0", "-device", "virtio-rng-pci,rng=rng0",
        "-device", "virtio-balloon-pci,id=balloon0",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-add-fd", f"fd={fds.console},set=1,opaque=console",
        "-chardev", f"socket,id=serial,fd={fds.sockets['serial']},server=on,wait=off,logfile=/dev/fdset/1,logappend=on",
        "-serial", "chardev:serial",
    ]  # fmt: skip
    for name in ("qmp", "tools"):
        argv += ["-chardev", f"socket,id={name},fd={fds.sockets[name]},server=on,wait=off"]
        argv += ["-mon", f"chardev={name},mode=control"]
    for node, fd in fds.files.items():
        argv += ["-add-fd", f"fd={fd},set={sets[node]},opaque={node}"]
    for drive in machine.drives:
        for one in nodes(drive, sets):
            argv += ["-blockdev", _json(one)]
        argv += ["-device", _json(drive_device(drive))]
    for nic in machine.nics:
        argv += ["-netdev", ",".join(["user", f"id={nic.id}", *_options(nic.network)])]
        argv += ["-device", _json(nic_device(nic))]
    return argv


def _accelerator(name: str) -> list[str]:
    if name == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    # A small cache of translated code: the usual one is larger than a small guest.
    return ["-accel", "tcg,tb-size=64", "-cpu", "max"]


def _options(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name}={('on' if value else 'off') if isinstance(value, bool) else value}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
