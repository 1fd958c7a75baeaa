"""The ``openstack`` command line, many commands for one start.

Each line of standard input is a JSON list, the words of a command; each line of standard output is what came of
it. A command is a fork of this process, which has everything imported and has spoken to nobody: it logs in,
discovers and looks names up as the console script does, and leaves nothing to the next one. Only the start of the
interpreter and the imports, most of a command's time, are paid once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

import openstack.connection  # noqa: F401 - for the forks
from openstackclient.shell import main


def one(words: list[str]) -> dict[str, object]:
    """Exit code and outputs of one command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    return {"code": code or 0, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    # They import whatever commands import, and do nothing.
    for command in (["help"], ["server", "list", "--help"], ["image", "list", "--help"]):
        one(command)
    for line in sys.stdin:
        if os.fork() == 0:
            print(json.dumps(one(json.loads(line))), flush=True)
            os._exit(0)
        os.wait()
