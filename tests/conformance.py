"""Runs the project's conformance kit against a cloud of its own: ``python -m tests.conformance [LIST…]``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.process.cumulet import ROOT, cloud


def main(lists: list[str]) -> int:
    kit = Path(os.environ.get("CUMULET_CONFORMANCE") or ROOT.parent / "shared/conformance/run-tempest")
    if not kit.exists():
        print(
            f"There is no conformance kit at {kit}; name its run-tempest in CUMULET_CONFORMANCE.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="c-") as place, cloud(Path(place) / "data") as up:
        return subprocess.run([kit, *lists], env={**os.environ, **up.variables}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["smoke"]))
