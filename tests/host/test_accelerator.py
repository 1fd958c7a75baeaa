"""Whether guests can run on the processor itself is tried, once, and remembered."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cumulet.config import Hosts
from cumulet.drivers import program
from cumulet.drivers.qemu import accelerator
from cumulet.drivers.qemu.accelerator import Accelerator

pytestmark = pytest.mark.anyio
USER = program.user(Hosts().guest_user)


def of(directory: Path, setting: str = "auto", qemu: str = "qemu-system-x86_64") -> Accelerator:
    return Accelerator(directory, setting, qemu, USER)


def script(directory: Path, text: str) -> str:
    path = directory / "qemu"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    directory.chmod(stat.S_IRWXU | stat.S_IXGRP | stat.S_IXOTH)
    return str(path)


async def test_the_guest_of_one_sector_runs_and_says_so(directory: Path) -> None:
    assert await of(directory).runs("tcg")


async def test_a_guest_that_hangs_is_ended(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_PATIENCE", 0.2)
    qemu = script(directory, f"echo $$ > {directory}/pid; exec sleep 1000")
    (directory / "pid").touch(0o666)
    (directory / "pid").chmod(0o666)
    assert not await of(directory, qemu=qemu).runs("kvm")
    assert (directory / "pid").read_text().strip() not in os.listdir("/proc")


async def test_a_program_that_is_not_there_accelerates_nothing(directory: Path) -> None:
    assert not await of(directory, qemu="/nowhere/qemu").runs("kvm")


@pytest.mark.parametrize("setting", ["kvm", "tcg"])
async def test_a_setting_is_believed(directory: Path, setting: str) -> None:
    assert await of(directory, setting, qemu="/nowhere/qemu").get() == setting


async def test_it_is_tried_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = directory / "kvm"
    device.touch()
    monkeypatch.setattr(accelerator, "_DEVICE", device)
    (directory / "tries").touch(0o666)
    (directory / "tries").chmod(0o666)
    qemu = script(directory, f"echo . >> {directory}/tries; exit 33")
    for _ in range(2):
        assert await of(directory, qemu=qemu).get() == "kvm"
    assert (directory / "tries").read_text() == ".\n"
    # Another program is another answer.
    script(directory, "exit 1")
    assert await of(directory, qemu=qemu).get() == "tcg"


async def test_without_a_device_there_is_nothing_to_try(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "_DEVICE", directory / "nothing")
    qemu = script(directory, "exit 33")
    assert await of(directory, qemu=qemu).get() == "tcg"
