"""What the contract tests share: a cloud in a process of its own, and the real clients that speak to it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.process.cumulet import PATIENCE, ROOT, Cloud, environment

#: The console script beside the interpreter that runs the tests.
OPENSTACK = Path(sys.executable).with_name("openstack")
DEMO, ADMIN = "cumulet-demo", "cumulet"


class Failed(AssertionError):
    """A command ended with another exit code than it must."""


class Shell:
    """``openstack``, with the clouds.yaml that the cloud wrote."""

    def __init__(self, cloud: Cloud, variables: Mapping[str, str] | None = None) -> None:
        #: What every command is started with.
        self.environment = environment(
            **(variables or {"OS_CLIENT_CONFIG_FILE": str(cloud.directory / "clouds.yaml")})
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("shell.py"))],
            env=self.environment, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def run(self, line: str, *, as_: str = DEMO) -> dict[str, Any]:
        """One command as a user types it: {"code", "out", "err"}."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        words = shlex.split(line)
        self.process.stdin.write(json.dumps(["--os-cloud", as_, *words] if as_ else words) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def text(self, line: str, *, as_: str = DEMO) -> str:
        """What a command prints that must succeed."""
        found = self.run(line, as_=as_)
        if found["code"] != 0:
            raise Failed(f"{line}: exit code {found['code']}\n{found['out']}{found['err']}")
        return str(found["out"])

    def get(self, line: str, *, as_: str = DEMO) -> Any:
        """The same, as JSON."""
        return json.loads(self.text(f"{line} -f json", as_=as_))

    def fails(self, line: str, *, as_: str = DEMO) -> str:
        """What a command says that must not succeed."""
        found = self.run(line, as_=as_)
        if found["code"] == 0:
            raise Failed(f"{line}: succeeded\n{found['out']}")
        assert "Traceback" not in found["err"]
        return str(found["out"] + found["err"])

    def script(self, *words: str, lines: str = "", as_: str = DEMO) -> subprocess.CompletedProcess[str]:
        """The console script in a process of its own; ``lines`` are what is typed in its interactive mode."""
        return subprocess.run(
            [OPENSTACK, "--os-cloud", as_, *words],
            env=self.environment, text=True, input=lines, capture_output=True, timeout=PATIENCE * 2,
        )  # fmt: skip


def until(condition: Callable[[], Any], what: str) -> Any:
    """What ``condition`` gives once that is true; it is asked again and again. Fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
