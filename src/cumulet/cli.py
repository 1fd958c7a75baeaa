"""The command line: each command reads its options and calls one function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cumulet import __version__, config
from cumulet.config import Config

F = Callable[..., Any]

_DATA = click.option("--data", metavar="DIR", help="The data directory. [$XDG_DATA_HOME/cumulet]")
_FILE = click.option(
    "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="A TOML file with settings."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _load(data: str | None, file: Path | None, **flags: Any) -> Config:
    return config.load(file, flags={"data": data, **flags})


def _roles(_: Any, __: Any, value: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else None


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="cumulet")
def cli() -> None:
    """An OpenStack-compatible cloud in one process.

    'cumulet up' starts it. Exit codes: docs/exit-codes.md.
    """


@cli.command()
@_DATA
@_FILE
@click.option("--host", metavar="ADDRESS", help="Address to listen on. [127.0.0.1]")
@click.option("--port", type=int, metavar="PORT", help="Port to listen on; 0 takes a free one. [5000]")
@click.option("--hypervisor", type=click.Choice(["sim", "qemu", "none"]), help="What runs the servers. [sim]")
@click.option("--hosts", type=int, metavar="N", help="How many simulated hosts. [3]")
@click.option("--database", metavar="URL", help="postgresql://…; SQLite in the data directory without it.")
@click.option(
    "--roles", callback=_roles, metavar="LIST", help="What this process does. [api,reconcile,agent]"
)
@click.option(
    "--insecure", is_flag=True, default=None, help="Allow plain HTTP on an address others can reach."
)
@click.option("--log-format", type=click.Choice(["plain", "json"]), help="How log lines look. [plain]")
@click.option(
    "--write-env", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the administrator's OS_* variables there once the cloud answers.",
)  # fmt: skip
@click.option("--merge", is_flag=True, help="Add the cloud to your own clouds.yaml.")
@click.option("--report-only", is_flag=True, help="Make and remove nothing until 'cumulet audit --accept'.")
def up(
    data: str | None, file: Path | None, host: str | None, port: int | None, hypervisor: str | None, hosts: int | None,
    database: str | None, roles: tuple[str, ...] | None, insecure: bool | None, log_format: str | None,
    write_env: Path | None, merge: bool, report_only: bool,
) -> None:  # fmt: skip
    """Start a cloud, and serve it until Ctrl-C."""
    from cumulet import serve

    settings = _load(
        data, file, roles=roles, server={"host": host, "port": port, "insecure": insecure},
        hosts={"hypervisor": hypervisor, "count": hosts}, database={"url": database}, log={"format": log_format},
    )  # fmt: skip
    serve.up(settings, write_env=write_env, merge=merge, report_only=report_only, say=click.echo)


@cli.command()
def demo() -> None:
    """Show on a throw-away cloud that a delete leaves nothing behind."""
    from cumulet import demo as job

    job.run()


@cli.command()
@_DATA
@_FILE
def down(data: str | None, file: Path | None) -> None:
    """Stop the cloud; it keeps everything."""
    from cumulet import remote

    settings = _load(data, file)
    pid = remote.down(settings.directory)
    click.echo(f"Stopped process {pid}; its data stay in {settings.directory}.")


@cli.command()
@_DATA
@_FILE
@_JSON
def status(data: str | None, file: Path | None, as_json: bool) -> None:
    """Show whether the cloud runs, where, and how it is."""
    from cumulet import remote, tables

    tables.show(remote.status(_load(data, file)), as_json, tables.status)


@cli.command()
@_DATA
@_FILE
@click.option(
    "--user", type=click.Choice(["admin", "demo"]), default="admin", help="Whose variables. [admin]"
)
@_JSON
def env(data: str | None, file: Path | None, user: str, as_json: bool) -> None:
    """Print the OS_* variables for a shell: eval "$(cumulet env)"."""
    from cumulet import clouds, remote, tables

    tables.show(
        remote.environment(_load(data, file), user), as_json, lambda found: clouds.exports(found).rstrip("\n")
    )


@cli.command()
@_DATA
@_FILE
@click.option("--accept", is_flag=True, help="Let a report-only cloud go on.")
@click.option("--fix", is_flag=True, help="Put right what is proven; what is not is left as it is.")
@_JSON
def audit(data: str | None, file: Path | None, accept: bool, fix: bool, as_json: bool) -> None:
    """Compare the database with itself and with what every host has.

    Shows what is lost, failing, owed, unknown, stuck or not as it should be, and why. Exit code 3 if there is any that
    was not put right. See docs/audit.md.
    """
    from cumulet import remote, tables
    from cumulet.errors import Refused
    from cumulet.exits import NOT_CLEAN

    settings = _load(data, file)
    cloud = remote.connect(settings)
    if accept:
        cloud.call("POST", "/accept")
        click.echo("The cloud goes on.", err=as_json)
    found = remote.audit(cloud, fix=fix)
    tables.show(found, as_json, lambda found: tables.audit(found, settings.option))
    kinds = [one["kind"] for one in found["findings"] if not one["fixed"]]
    if kinds:
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        raise Refused(f"The audit found: {counts}.", NOT_CLEAN)


@cli.command()
@_DATA
@_FILE
@_JSON
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE")
def backup(data: str | None, file: Path | None, as_json: bool, target: Path) -> None:
    """Back up the cloud's state into FILE, while it runs or not."""
    from cumulet import backup, datadir, remote, tables

    settings = _load(data, file)
    if datadir.is_used(settings.directory):
        remote.connect(settings).download("/backup", target)
    else:
        backup.write(settings.directory, target)
    found = {"file": str(target), "bytes": target.stat().st_size}
    tables.show(
        found, as_json, lambda _: f"Backed up {settings.directory} into {target}, {found['bytes']} bytes."
    )


@cli.command()
@_DATA
@_FILE
@click.option("--force", is_flag=True, help="Replace the cloud that is there; its database is kept beside.")
@_JSON
@click.argument("source", type=click.Path(path_type=Path), metavar="FILE")
def restore(data: str | None, file: Path | None, force: bool, as_json: bool, source: Path) -> None:
    """Put a backup into a data directory. The cloud begins report-only."""
    from cumulet import backup, tables

    settings = _load(data, file)
    manifest = backup.restore(source, settings.directory, force=force)
    found = {"data": str(settings.directory), "made_at": manifest.made_at, "version": manifest.version}
    tables.show(
        found, as_json,
        lambda _: f"Restored into {settings.directory}. Start it with 'cumulet up{settings.option}': it makes and removes "
        f"nothing until you have seen 'cumulet audit{settings.option}' and run 'cumulet audit{settings.option} --accept'.",
    )  # fmt: skip


@cli.group()
def token() -> None:
    """Tokens for those who join the cloud, and the keys of users' tokens."""


@token.command("host")
@_DATA
@_FILE
@click.option("--renew", is_flag=True, help="End the present token of a host that has joined.")
@_JSON
@click.argument("name")
def token_host(data: str | None, file: Path | None, renew: bool, as_json: bool, name: str) -> None:
    """Print a token with which the host NAME joins; it is shown once."""
    from cumulet import remote, tables

    found = remote.connect(_load(data, file)).call("POST", "/tokens", json={"host": name, "renew": renew})
    tables.show(found, as_json, lambda found: str(found["token"]))


@token.command("rotate")
@_DATA
@_FILE
@_JSON
def token_rotate(data: str | None, file: Path | None, as_json: bool) -> None:
    """Use a new key for users' tokens and stored secrets; the oldest of three goes, and tokens made with it end."""
    from cumulet import remote, tables

    found = remote.connect(_load(data, file)).call("POST", "/keys")
    tables.show(found, as_json, lambda found: f"A new key is in use; {found['keys']} are kept.")


@cli.group()
def host() -> None:
    """Hosts that join from processes of their own."""


@host.command("join")
@_FILE
@click.option(
    "--token", envvar="CUMULET_HOST_TOKEN", required=True, help="The host's token. [$CUMULET_HOST_TOKEN]"
)
@click.option("--name", metavar="NAME", help="The host's name. [this machine's]")
@click.option(
    "--state", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Its state directory."
)
@click.option("--hypervisor", type=click.Choice(["sim", "qemu"]), help="What runs the servers. [sim]")
@click.option("--insecure", is_flag=True, default=None, help="Allow plain HTTP to another machine.")
@click.option("--log-format", type=click.Choice(["plain", "json"]), help="How log lines look. [plain]")
@click.argument("url")
def host_join(
    file: Path | None, token: str, name: str | None, state: Path, hypervisor: str | None, insecure: bool | None,
    log_format: str | None, url: str,
) -> None:  # fmt: skip
    """Serve as a host of the cloud at URL until Ctrl-C."""
    import os

    from cumulet import host

    settings = _load(
        None,
        file,
        hosts={"hypervisor": hypervisor},
        server={"insecure": insecure},
        log={"format": log_format},
    )
    host.join(url, token, name or os.uname().nodename, state, settings, say=click.echo)


@host.command("list")
@_DATA
@_FILE
@_JSON
def host_list(data: str | None, file: Path | None, as_json: bool) -> None:
    """Show every agent: hosts, volume back ends, the network, the image store."""
    from cumulet import remote, tables

    found = remote.connect(_load(data, file)).call("GET", "/agents")["agents"]
    tables.show(found, as_json, tables.agents)


@host.command("destroyed")
@_DATA
@_FILE
@_JSON
@click.argument("name")
def host_destroyed(data: str | None, file: Path | None, as_json: bool, name: str) -> None:
    """Say that the host NAME is gone for good with all that it had; its debts are closed."""
    from cumulet import remote, tables

    found = remote.connect(_load(data, file)).call("POST", f"/agents/{name}/destroyed")
    tables.show(
        found, as_json, lambda found: f"{found['name']} is destroyed; {found['closed']} claims were closed."
    )


@cli.command()
@_DATA
@_FILE
@click.option("--markdown", is_flag=True, help="Print the page docs/settings.md.")
@_JSON
def settings(data: str | None, file: Path | None, markdown: bool, as_json: bool) -> None:
    """Show every setting with its value; the settings file and the environment count."""
    import msgspec

    from cumulet import pages, tables

    if markdown:
        click.echo(pages.settings(), nl=False)
    else:
        tables.show(msgspec.to_builtins(_load(data, file)), as_json, tables.settings)


@cli.command()
@_FILE
@_JSON
def policy(file: Path | None, as_json: bool) -> None:
    """Print every policy rule that is in force, as a policy file; the one of the settings counts."""
    from cumulet import app, policy_file, tables

    made = app.rules(_load(None, file))
    tables.show(made.checks, as_json, lambda checks: policy_file.text(checks, app.uses()))
