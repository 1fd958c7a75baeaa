"""``cumulet host join``: one host as a process of its own, which dials in to the control plane."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import structlog
import uvloop

from cumulet import datadir, logs
from cumulet.agent import build
from cumulet.agent.build import Supervisor
from cumulet.agent.client import Rejected
from cumulet.chance import RealChance
from cumulet.config import Config
from cumulet.errors import Refused
from cumulet.exits import BAD_SETTINGS, REFUSED

log = structlog.get_logger()


def join(
    url: str, token: str, name: str, directory: Path, config: Config, say: Callable[[str], None] = print
) -> None:
    """Serve as a host until SIGTERM or SIGINT; what runs on it goes on. Raises Refused."""
    logs.configure(config.log)
    agent, dot, secret = token.strip().partition(".")
    if not (agent and dot and secret):
        raise Refused("This is not a host's token. Get one with 'cumulet token host NAME'.", BAD_SETTINGS)
    _check_url(url, config)
    build.check("host", config)
    with datadir.usable(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
    gc.freeze()
    gc.enable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(url, agent, secret, name, directory, config, say))


def _check_url(url: str, config: Config) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"{url} is not the URL of a cloud; 'cumulet status' shows it.", BAD_SETTINGS)
    local = parts.hostname == "localhost"
    with contextlib.suppress(ValueError):
        local = local or ipaddress.ip_address(parts.hostname).is_loopback
    if parts.scheme == "http" and not local and not config.server.insecure:
        raise Refused(
            f"{url} is plain HTTP to another machine: the token could be read. Use https, or --insecure.",
            BAD_SETTINGS,
        )


async def _run(
    url: str, agent: str, secret: str, name: str, directory: Path, config: Config, say: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    ends = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ends.set)
    limits = httpx2.Limits(max_connections=64)
    async with httpx2.AsyncClient(base_url=url, limits=limits, trust_env=False) as http:
        supervisor = Supervisor(
            "host", name, directory, http, agent, secret, config, RealChance(), crash=_crash
        )
        serving = asyncio.create_task(supervisor.run())
        ending = asyncio.create_task(ends.wait())
        say(f"Host {name} joins {url}; its state is in {directory}. Stop it with Ctrl-C.")
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
            return
        try:
            with datadir.usable(directory):
                serving.result()
        except Rejected as error:
            hint = {401: " Get a new one with 'cumulet token host'."}.get(error.status, "")
            raise Refused(f"The cloud at {url} refused this host: {error.message}{hint}", REFUSED) from error


def _crash() -> None:
    """A fault rule says crash: nothing is tidied up, as in a real one."""
    os.kill(os.getpid(), signal.SIGKILL)
