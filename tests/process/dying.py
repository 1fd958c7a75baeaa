"""A program that kills itself at a point of its code, as a power failure would; otherwise it is ``cumulet``.

    python -m tests.process.dying cumulet.core.scheduling:take:after up --data …

The point is a module, a function of it, and whether death comes before or after its effect, the first time after
the signal SIGUSR1. "rules": it dies when a fault rule says crash to one of its own agents, as a host's process does.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from typing import Any


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def prepare(point: str) -> None:
    """Have the process die at the point once it was told to."""
    if point == "rules":
        from cumulet import app

        app.Supervisor = functools.partial(app.Supervisor, crash=_die)  # type: ignore[misc, assignment]
        return
    armed = []
    signal.signal(signal.SIGUSR1, lambda *_: armed.append(True))
    module, name, moment = point.split(":")
    place = importlib.import_module(module)
    function = getattr(place, name)

    @functools.wraps(function)
    def dies(*args: Any, **kwargs: Any) -> Any:
        if armed and moment == "before":
            _die()
        result = function(*args, **kwargs)
        if armed:
            _die()
        return result

    setattr(place, name, dies)


if __name__ == "__main__":
    # What asks which modules are loaded must find the program's own.
    from cumulet.__main__ import main

    prepare(sys.argv.pop(1))
    main()
