"""Guests without a cloud: a host's drivers, and real processes. Few boots, for each costs seconds."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import os
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.guest import HOSTS, MIB, SCRIPT, Host, claim, guest, host, need, processes, root_disk

from cumulet.config import Hosts
from cumulet.drivers import qcow2
from cumulet.drivers.base import Failed, Unknown
from cumulet.drivers.qemu import alive, machine
from cumulet.drivers.qemu.qmp import Monitor
from cumulet.wire.agent import Claim, Question

pytestmark = pytest.mark.anyio
DISK = "d1d1d1d1-0000-4000-8000-000000000000"
CONFIG = "cdcdcdcd-0000-4000-8000-000000000000"
GUEST = "60606060-0000-4000-8000-000000000000"
TAP, PORT = "7a7a7a7a-0000-4000-8000-000000000000", "90909090-0000-4000-8000-000000000000"
EXPORT, ATTACHMENT = "e1e1e1e1-0000-4000-8000-000000000000", "a1a1a1a1-0000-4000-8000-000000000000"
VOLUME = "0f0f0f0f-1234-4000-8000-000000000000"


@pytest.fixture
async def here(directory: Path) -> AsyncIterator[Host]:
    with host(directory) as made:
        yield made


def empty(id: str = DISK) -> Claim:
    """A disk with nothing on it: its guest starts at once, and never gets anywhere."""
    return claim("disk", id, {"size_mb": 16, "format": "swap"}, part="swap")


async def no_one(here: Host) -> None:
    """Nothing of a guest is left."""
    assert processes(here.directory) == []
    for kind in ("guest", "disk", "working", "tap", "connection", "source"):
        assert os.listdir(here.directory / kind) == [], kind


def asked(made: Claim, **spec: Any) -> Claim:
    return msgspec.structs.replace(made, spec={**made.spec, **spec})


# --- the process, without a system in it ---


async def test_a_guest_comes_and_goes(here: Host) -> None:
    wanted = guest(GUEST, [empty()])
    await here.remove(wanted)
    await here.ensure(empty())
    made = await here.ensure(wanted)
    assert made.facts == {"power": "on", "counters": {}}
    (pid,) = processes(here.directory)
    assert await here.ensure(wanted) == made
    assert processes(here.directory) == [pid]
    assert (await here.observe())[GUEST] == made
    await here.remove(wanted)
    await here.remove(empty())
    await no_one(here)


async def test_a_guest_has_no_privileges_and_only_its_own_files(here: Host) -> None:
    await here.ensure(empty())
    await here.ensure(guest(GUEST, [empty()]))
    (pid,) = processes(here.directory)
    status = _status(pid)
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert os.getsid(pid) == pid
    if os.geteuid() == 0:
        assert "\nUid:\t0" not in status
    opened = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    ours = {
        path.removeprefix(f"{here.directory}/") for path in opened if path.startswith(str(here.directory))
    }
    home = f"guest/{GUEST}"
    assert ours == {f"disk/{DISK}/disk", f"{home}/console.log", f"{home}/alive", f"{home}/output"}


async def test_a_guest_outlives_its_agent_and_is_found_again(directory: Path) -> None:
    wanted = guest(GUEST, [empty()], counters={"reboots": 1})
    with host(directory) as first:
        await first.ensure(empty())
        await first.ensure(wanted)
        (pid,) = processes(directory)
        first.close()
        again = Host(directory)
        assert (await again.observe())[GUEST].facts == {"power": "on", "counters": {"reboots": 1}}
        await again.ensure(wanted)
        assert processes(directory) == [pid], "nothing was done twice"
        await again.remove(wanted)
        assert processes(directory) == []
        again.close()


async def test_a_guest_is_found_without_the_note_of_its_process(directory: Path) -> None:
    with host(directory) as here:
        await here.ensure(empty())
        await here.ensure(guest(GUEST, [empty()]))
        (directory / "guest" / GUEST / "pid").unlink()
        assert (await here.observe())[GUEST].facts["power"] == "on"
        await here.remove(guest(GUEST, [empty()]))
        assert processes(directory) == []


async def test_a_start_that_nobody_heard_of_is_not_repeated(directory: Path) -> None:
    """Killed between the start of the process and the note that it succeeded."""
    wanted = guest(GUEST, [empty()], counters={"hard_reboots": 1})
    with host(directory) as here:
        await here.ensure(empty())
        await here.ensure(wanted)
        (pid,) = processes(directory)
        path = directory / "guest" / GUEST / "state.json"
        state = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode({**state, "up": 0}))
        (directory / "guest" / GUEST / "pid").unlink()
        await here.ensure(wanted)
        assert processes(directory) == [pid]
        assert msgspec.json.decode(path.read_bytes())["up"] == 1


async def test_a_start_that_never_happened_is_made_up_for(directory: Path) -> None:
    """Killed between the decision to start and the start."""
    wanted = guest(GUEST, [empty()], counters={"starts": 1})
    with host(directory) as here:
        await here.ensure(empty())
        home = directory / "guest" / GUEST
        home.mkdir()
        (home / "state.json").write_bytes(
            msgspec.json.encode({"starts": 1, "up": 0, "counters": {"starts": 1}})
        )
        assert (await here.ensure(wanted)).facts["power"] == "on"


async def test_a_guest_that_ended_stays_off_and_that_is_told(here: Host) -> None:
    wanted = guest(GUEST, [empty()])
    await here.ensure(empty())
    await here.ensure(wanted)
    (pid,) = processes(here.directory)
    monitor = await Monitor.connect(here.directory / "guest" / GUEST, "tools")
    with contextlib.suppress(Failed):
        await monitor.execute("quit")
    async with asyncio.timeout(120):
        assert await here.changed.get() == GUEST
    thing = await here.look(wanted)
    assert thing is not None
    assert thing.facts["power"] == "off"
    assert str(pid) not in os.listdir("/proc"), "it was reaped"
    assert (await here.ensure(wanted)).facts["power"] == "off"
    started = await here.ensure(asked(wanted, counters={"starts": 1}))
    assert started.facts == {"power": "on", "counters": {"starts": 1}}


async def test_counters_are_worked_off_once(here: Host) -> None:
    wanted = guest(GUEST, [empty()])
    await here.ensure(empty())
    await here.ensure(wanted)
    pids = [*processes(here.directory)]
    for _ in range(2):
        await here.ensure(asked(wanted, counters={"hard_reboots": 1}))
        pids += processes(here.directory)
    assert pids[0] != pids[1]
    assert pids[1] == pids[2]


@pytest.mark.parametrize("word", ["paused", "suspended"])
async def test_a_guest_is_held_and_runs_on(here: Host, word: str) -> None:
    """Its process stays, and another agent over the same directory knows why it does not run."""
    await here.ensure(empty())
    wanted = guest(GUEST, [empty()])
    await here.ensure(wanted)
    (pid,) = processes(here.directory)
    for _ in range(2):
        assert (await here.ensure(asked(wanted, power=word))).facts["power"] == word
    here.close()
    with host(here.directory) as later:
        assert (await later.look(wanted)).facts["power"] == word  # type: ignore[union-attr]
        assert (await later.ensure(wanted)).facts["power"] == "on"
        assert processes(here.directory) == [pid]
        monitor = await later.drivers["guest"]._monitor(GUEST)  # type: ignore[attr-defined]
        assert (await monitor.execute("query-status"))["running"]
        await later.ensure(asked(wanted, power=word))
        restarted = asked(wanted, counters={"hard_reboots": 1})
        assert (await later.ensure(restarted)).facts["power"] == "on"
        assert processes(here.directory) != [pid]


async def test_a_guest_that_runs_does_not_move(here: Host) -> None:
    await here.ensure(empty())
    with pytest.raises(Failed, match="cold migration") as failed:
        await here.ensure(asked(guest(GUEST, [empty()]), incoming="m"))
    assert failed.value.fatal


async def test_a_guest_that_does_not_listen_is_switched_off(directory: Path) -> None:
    wanted = guest(GUEST, [empty()])
    with host(directory, Hosts(accelerator="tcg", shutdown_seconds=0.2)) as here:
        await here.ensure(empty())
        await here.ensure(wanted)
        assert (await here.ensure(asked(wanted, power="off"))).facts["power"] == "off"
        assert processes(directory) == []
        assert (await here.ensure(asked(wanted, counters={"starts": 1}))).facts["power"] == "on"
        (pid,) = processes(directory)
        # A soft reboot does not hang on a guest that does not listen.
        await here.ensure(asked(wanted, counters={"starts": 1, "reboots": 1}))
        assert processes(directory) != [pid]


async def test_no_other_process_is_ever_killed(here: Host) -> None:
    """The note names a process that is another one by now, or a guest of the same name in another directory."""
    other = await asyncio.create_subprocess_exec("sleep", "100")
    try:
        home = here.directory / "guest" / GUEST
        home.mkdir()
        (home / "pid").write_text(str(other.pid))
        assert alive.find(home, machine.mark(GUEST)) is None
        await here.remove(guest(GUEST, []))
        assert other.returncode is None
    finally:
        other.kill()
        await other.wait()


async def test_a_guest_of_the_same_id_in_another_directory_is_another(
    directory: Path, tmp_path: Path
) -> None:
    """A restored backup may have it."""
    with host(directory) as here, host(tmp_path / "other") as there:
        for one in (here, there):
            await one.ensure(empty())
            await one.ensure(guest(GUEST, [empty()]))
            (one.directory / "guest" / GUEST / "pid").unlink()
        await there.remove(guest(GUEST, []))
        assert processes(tmp_path / "other") == []
        assert len(processes(directory)) == 1


async def test_a_process_that_cannot_be_told_yet_is_not_called_absent(
    here: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something holds the guest's lock, and is not to be found: its starter died just after the fork."""
    monkeypatch.setattr(alive, "PATIENCE", 0.1)
    home = here.directory / "guest" / GUEST
    home.mkdir()
    holder = os.open(home / "alive", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert (await here.observe())[GUEST].facts["power"] == "on"
    with pytest.raises(Unknown, match="cannot be found"):
        await here.remove(guest(GUEST, []))
    assert home.exists()
    os.close(holder)
    await here.remove(guest(GUEST, []))


async def test_qemus_own_words_are_told(directory: Path) -> None:
    with host(directory) as here:
        await here.ensure(empty())
        with pytest.raises(Failed, match="CPUs"):
            await here.ensure(guest(GUEST, [empty()], vcpus=100000))
        assert processes(directory) == []
        assert (await here.ensure(guest(GUEST, [empty()]))).facts["power"] == "on"


async def test_a_program_that_is_not_there_is_named(directory: Path) -> None:
    with host(directory, Hosts(accelerator="tcg", qemu="/nowhere/qemu")) as here:
        await here.ensure(empty())
        with pytest.raises(Failed, match="/nowhere/qemu"):
            await here.ensure(guest(GUEST, [empty()]))


@pytest.mark.parametrize(
    ("properties", "words"),
    [({"hw_firmware_type": "uefi"}, "firmware uefi"), ({"hw_vif_model": "vmxnet3"}, "model vmxnet3")],
)
async def test_what_cannot_be_done_is_said(here: Host, properties: dict[str, str], words: str) -> None:
    await here.ensure(empty())
    with pytest.raises(Failed, match=words) as failed:
        await here.ensure(guest(GUEST, [empty()], image_properties=properties))
    assert failed.value.fatal


def volume(path: Path, size: int = 64 * MIB) -> None:
    path.write_bytes(qcow2.empty(size))


def with_volume(path: Path, *, more: int = 0, **facts: Any) -> dict[str, Any]:
    """A guest's fields with a volume in the file."""
    spec = {"part": ATTACHMENT, "kind": "export", "volume": VOLUME, "device": "/dev/vdb", "boot_index": None,
            "bus": None, "readonly": False, "serial": VOLUME}  # fmt: skip
    facts = {"driver": "file", "path": str(path), "format": "qcow2", **facts}
    needs = [need("export", EXPORT, ATTACHMENT, **facts)]
    return {"volumes": [spec], "needs": needs}


async def test_devices_that_no_guest_lets_go_of_stay(directory: Path, tmp_path: Path) -> None:
    volume(tmp_path / "v")
    with host(directory, Hosts(accelerator="tcg", unplug_seconds=0.2)) as here:
        await here.ensure(empty())
        await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "v")))
        for _ in range(2):
            with pytest.raises(Failed, match="did not let go of the device") as failed:
                await here.ensure(guest(GUEST, [empty()]))
            assert failed.value.cause == "device"
        thing = await here.look(guest(GUEST, []))
        assert thing is not None
        assert thing.facts["power"] == "on"
        # It is wanted again: nothing to do. A restart does without the guest.
        await here.ensure(guest(GUEST, [empty()], counters={"hard_reboots": 1}))
        assert _lockable(tmp_path / "v"), "the new process does not have the volume"


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def _lockable(path: Path) -> bool:
    """True if no QEMU has the file open."""
    # QEMU locks bytes from 100 on; F_OFD_GETLK says whether that could be done.
    with path.open("r+b") as file:
        told = fcntl.fcntl(file, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 100, 200, 0))
    return bool(struct.unpack("hhqqi4x", told)[0] == fcntl.F_UNLCK)


async def test_a_volume_that_another_has_is_not_opened_twice(directory: Path, tmp_path: Path) -> None:
    volume(tmp_path / "v")
    other = "61616161-0000-4000-8000-000000000000"
    with host(directory) as here:
        await here.ensure(empty())
        await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "v")))
        await here.ensure(empty(CONFIG))
        with pytest.raises(Failed, match="lock"):
            await here.ensure(guest(other, [empty(CONFIG)], **with_volume(tmp_path / "v")))
        assert len(processes(directory)) == 1


async def test_a_volume_whose_file_names_another_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(qcow2.overlay(MIB, "/etc/passwd", "raw"))
    with host(directory) as here:
        await here.ensure(empty())
        with pytest.raises(Failed, match="names a backing file"):
            await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "v")))


@pytest.mark.parametrize(
    ("facts", "words"), [({"driver": "rbd"}, "reached by rbd"), ({"format": "vmdk"}, "format vmdk")]
)
async def test_a_volume_that_cannot_be_opened_is_said(
    directory: Path, tmp_path: Path, facts: dict[str, str], words: str
) -> None:
    with host(directory) as here:
        await here.ensure(empty())
        with pytest.raises(Failed, match=words):
            await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "v", **facts)))


async def test_a_volume_can_be_plugged_and_a_failed_plug_leaves_nothing(
    directory: Path, tmp_path: Path
) -> None:
    volume(tmp_path / "v")
    with host(directory) as here:
        await here.ensure(empty())
        await here.ensure(guest(GUEST, [empty()]))
        with pytest.raises(Failed, match="cannot be opened") as failed:
            await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "nowhere")))
        assert failed.value.cause == f"plug {ATTACHMENT}"
        await here.ensure(guest(GUEST, [empty()], **with_volume(tmp_path / "v")))
        monitor = await Monitor.connect(directory / "guest" / GUEST, "tools")
        nodes = await monitor.execute("query-named-block-nodes", {"flat": True})
        assert {node["node-name"] for node in nodes} == {
            "swap", "swap-f", machine.volume_id(ATTACHMENT), machine.volume_id(ATTACHMENT) + "-f",
        }  # fmt: skip
        monitor.close()


async def test_a_guest_that_is_paused_is_shown_so(directory: Path) -> None:
    wanted = guest(GUEST, [empty()])
    with host(directory) as here:
        await here.ensure(empty())
        await here.ensure(wanted)
        tools = await Monitor.connect(directory / "guest" / GUEST, "tools")
        for command, power in (("stop", "paused"), ("cont", "on")):
            await tools.execute(command)
            async with asyncio.timeout(60):
                assert await here.changed.get() == GUEST
            thing = await here.look(wanted)
            assert thing is not None
            assert thing.facts["power"] == power
        await tools.execute("stop")
        tools.close()
        here.close()
        with host(directory) as later:
            # Seen by whoever comes after, too.
            assert (await later.ensure(wanted)).facts["power"] == "paused"
            await later.remove(wanted)


async def test_a_console_that_is_flooded_keeps_its_end(here: Host) -> None:
    from cumulet.drivers.qemu import telling

    home = here.directory / "guest" / GUEST
    home.mkdir()
    log = os.open(home / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, b"x" * 5000 + b"the end\n")
    telling.trim(home / "console.log", 4000, 1000)
    os.write(log, b"and on\n")
    os.close(log)
    assert (await here.console(GUEST)).endswith("the end\nand on\n")
    assert (home / "console.log").stat().st_size == 1007
    pieces = await here.drivers["guest"].answer(Question("q", "console", GUEST, {"length": 1}))
    assert [piece async for piece in pieces] == [b"and on\n"]


async def test_the_time_that_a_start_takes(here: Host, record_property: Any) -> None:
    """The budget: 300 ms over starting the same QEMU by hand."""
    await here.ensure(empty())
    begun = time.monotonic()
    await here.ensure(guest(GUEST, [empty()]))
    record_property("start_ms", round((time.monotonic() - begun) * 1000))


# --- a system in it ---


async def test_a_guest_boots_and_its_devices_change_while_it_runs(directory: Path, tmp_path: Path) -> None:
    """One boot for all that needs a system that answers."""
    files = {
        "openstack/latest/meta_data.json": msgspec.json.encode(
            {"uuid": "u1", "hostname": "first", "public_keys": {}}
        ),
        "openstack/latest/user_data": SCRIPT,
    }
    config = claim(
        "disk", CONFIG, {"files": {k: base64.b64encode(v).decode() for k, v in files.items()}}, part="config"
    )
    tap = claim("tap", TAP, {"mac": "fa:16:3e:00:00:01", "addresses": []}, part=PORT)
    nic = {"part": PORT, "mac": "fa:16:3e:00:00:01", "network": "n", "mtu": 1500,
           "addresses": [{"subnet": "s", "address": "10.20.30.40"}]}  # fmt: skip
    volume(tmp_path / "v")
    plugged = with_volume(tmp_path / "v")
    disks = [root_disk(DISK), config]
    with host(directory) as here:
        for one in (*disks, tap):
            await here.ensure(one)
        wanted = guest(GUEST, disks, [need("tap", TAP, PORT)], nics=[nic])
        await here.ensure(wanted)
        found = await here.see(GUEST, r"guest: ready host=(\S+) ip=(\S*) metadata=(\S+)")
        assert found.groups() == ("first", "10.20.30.40", "config-drive")
        await here.see(GUEST, r"^seen: disks=vda::524288,vdb:\S+ nics=eth0,lo,", seconds=60)

        # A volume and a second card, while it runs.
        second = {**nic, "part": ATTACHMENT, "mac": "fa:16:3e:00:00:02", "addresses": []}
        changed = guest(
            GUEST,
            disks,
            [need("tap", TAP, PORT), *plugged["needs"]],
            nics=[nic, second],
            volumes=plugged["volumes"],
        )
        await here.ensure(changed)
        await here.see(GUEST, rf"^seen: disks=\S*vdc:{VOLUME[:20]}:131072\S* nics=eth0,eth1,lo,", seconds=60)

        # A copy of the root disk, as it is now, and a look at what the guest does.
        copied = await here.ensure(
            claim("source", EXPORT, {"image": "i", "format": "qcow2"}, [need("disk", DISK, "root")])
        )
        assert copied.facts["virtual_size"] == 256 * MIB
        run_check = await asyncio.create_subprocess_exec(
            "qemu-img", "check", "-q", "-f", "qcow2", str(directory / "source" / EXPORT / "copy")
        )
        assert await run_check.wait() == 0
        await here.remove(claim("source", EXPORT, {}))
        pieces = await here.drivers["guest"].answer(Question("q", "diagnostics", GUEST))
        told = msgspec.json.decode(b"".join([piece async for piece in pieces]))
        assert told["state"] == "running"
        assert told["cpus"][0] > 1_000_000_000
        assert {"device": "root"}.items() <= told["disks"][0].items()
        assert told["disks"][0]["read_bytes"] > MIB
        assert told["nics"][0]["mac"] == "fa:16:3e:00:00:01"

        # Another agent takes over, and takes the devices away again.
        here.close()
        later = Host(directory)
        (pid,) = processes(directory)
        await later.ensure(wanted)
        assert processes(directory) == [pid]
        await later.see(GUEST, r"^seen: disks=vda::524288,vdb:\S+ nics=eth0,lo,", times=2, seconds=60)
        assert _lockable(tmp_path / "v")

        # Asked to, it powers itself off.
        begun = time.monotonic()
        assert (await later.ensure(asked(wanted, power="off"))).facts["power"] == "off"
        assert time.monotonic() - begun < HOSTS.shutdown_seconds, "it was switched off"
        assert "Power down" in await later.console(
            GUEST
        ) or "Requesting system poweroff" in await later.console(GUEST)
        for one in (wanted, tap, *disks):
            await later.remove(one)
        await no_one(later)
        later.close()


async def test_a_guest_reboots_softly_and_may_power_itself_off(directory: Path) -> None:
    config = claim(
        "disk", CONFIG,
        {"files": {
            "openstack/latest/meta_data.json": base64.b64encode(b'{"uuid": "u2", "hostname": "h"}').decode(),
            "openstack/latest/user_data": base64.b64encode(b"#!/bin/sh\ntouch /root/first\nsync\n").decode(),
        }}, part="config",
    )  # fmt: skip
    disks = [root_disk(DISK), config]
    with host(directory) as here:
        for one in disks:
            await here.ensure(one)
        wanted = guest(GUEST, disks)
        await here.ensure(wanted)
        await here.see(GUEST, r"guest: ready host=h ")
        await here.ensure(asked(wanted, counters={"reboots": 1}))
        # User data runs once: it is the same disk.
        await here.see(GUEST, r"guest: ready host=h ", times=2)
        console = await here.console(GUEST)
        assert console.count("user data script ended with 0") == 1
        monitor = await Monitor.connect(directory / "guest" / GUEST, "tools")
        while not here.changed.empty():
            here.changed.get_nowait()
        await monitor.execute("system_powerdown")
        async with asyncio.timeout(120):
            assert await here.changed.get() == GUEST
        assert (await here.ensure(asked(wanted, counters={"reboots": 1}))).facts["power"] == "off"
        await here.remove(wanted)
