"""What is built is whole: installed elsewhere, it starts a cloud without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from cumulet import __version__
from tests.process.cumulet import ROOT, environment


def test_the_wheel_installs_and_runs(directory: Path) -> None:
    built = subprocess.run(
        [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
            "--no-build-isolation", "--wheel-dir", directory, ROOT,
        ],
        text=True, capture_output=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    wheel = next(directory.glob("cumulet-*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "cumulet/db/schema/sqlite.sql" in names
    assert "cumulet/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs"))]
    venv.create(directory / "venv", with_pip=True)
    python = directory / "venv/bin/python"
    installed = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index", wheel],
        text=True, capture_output=True,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    # Its dependencies are those of this environment: the wheel is on trial, not the index.
    env = environment(PYTHONPATH=sysconfig.get_path("purelib"))
    program = directory / "venv/bin/cumulet"
    said = subprocess.run([program, "--version"], env=env, text=True, capture_output=True, cwd=directory)
    assert said.stdout == f"cumulet, version {__version__}\n", said.stderr
    where = subprocess.run(
        [python, "-c", "import cumulet; print(cumulet.__file__)"],
        env=env,
        text=True,
        capture_output=True,
        cwd=directory,
    )
    assert where.stdout.startswith(os.fspath(directory)), where.stdout
    shown = subprocess.run([program, "demo"], env=env, text=True, capture_output=True, cwd=directory)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "checks held" in shown.stdout
