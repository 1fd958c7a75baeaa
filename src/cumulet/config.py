"""Every setting, in one frozen tree: from a TOML file, the environment and flags, in this order of growing weight.

The tree is passed in; nothing imports it as state. ``docs/settings.md`` is generated from this file.

An environment variable is named by its path: ``CUMULET_RECONCILE_PATIENCE=30``.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cumulet.errors import Refused

Positive = Annotated[float, Meta(gt=0)]
Natural = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]


def _doc(text: str) -> Meta:
    return Meta(description=text)


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the API listens."""

    host: Annotated[
        str, _doc("Address to listen on. Anything but a loopback address needs `--insecure`.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 5000
    insecure: Annotated[bool, _doc("Allow plain HTTP on an address that others can reach.")] = False
    behind_proxy: Annotated[bool, _doc("Believe X-Forwarded-Proto and X-Forwarded-Host.")] = False
    connections: Annotated[
        int, Meta(ge=16, description="Requests under way at once; more are answered with 503.")
    ] = 4096
    address: Annotated[
        str,
        _doc(
            "`http://host:port` under which other processes on the same database reach this one; empty for where it "
            "listens."
        ),
    ] = ""


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written about the work."""

    format: Annotated[Literal["plain", "json"], _doc("Lines for people, or one JSON object a line.")] = (
        "plain"
    )
    level: Annotated[
        Literal["debug", "info", "warning", "error"], _doc("The least important level that is written.")
    ] = "info"
    requests: Annotated[bool, _doc("One line for each API request.")] = False


class Database(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the state is kept."""

    url: Annotated[str, _doc("`postgresql://…`; empty for SQLite in the data directory.")] = ""
    connections: Annotated[int, Meta(ge=2, le=64, description="Connections to PostgreSQL.")] = 8


class Hosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts that run inside this process."""

    hypervisor: Annotated[
        Literal["sim", "qemu", "none"],
        _doc("`sim`: simulated hosts; `qemu`: this machine, real guests; `none`: hosts join from elsewhere."),
    ] = "sim"
    count: Annotated[int, Meta(ge=0, le=5000, description="How many simulated hosts.")] = 3
    vcpus: Annotated[int, Meta(ge=1, description="Virtual CPUs of a simulated host.")] = 64
    ram_mb: Annotated[int, Meta(ge=64, description="Memory of a simulated host, MiB.")] = 262144
    disk_gb: Annotated[int, Meta(ge=1, description="Local disk of a simulated host, GiB.")] = 4096
    cpu_ratio: Annotated[Positive, _doc("Virtual CPUs given out for each one there is.")] = 16.0
    ram_ratio: Annotated[Positive, _doc("Memory given out for what there is.")] = 1.5
    disk_ratio: Annotated[Positive, _doc("Disk given out for what there is.")] = 1.0
    reserved_ram_mb: Annotated[Count, _doc("Memory kept for the host itself, MiB.")] = 512
    qemu: Annotated[str, _doc("The program that runs guests; a name that is looked for, or a path.")] = (
        "qemu-system-x86_64"
    )
    accelerator: Annotated[
        Literal["auto", "kvm", "tcg"],
        _doc(
            "What runs a guest's code: `kvm` the processor, `tcg` QEMU; `auto` tries kvm by starting a guest."
        ),
    ] = "auto"
    guest_user: Annotated[str, _doc("Who guests run as when Cumulet runs as root.")] = "nobody"
    guest_network: Annotated[
        Literal["closed", "open"],
        _doc(
            "QEMU's own networks: `closed` ones lead nowhere; `open` ones lead out by this machine's connections, "
            "and to what listens on its loopback address."
        ),
    ] = "closed"
    shutdown_seconds: Annotated[
        Positive, _doc("How long a guest may take to power itself off before it is switched off.")
    ] = 60.0
    unplug_seconds: Annotated[Positive, _doc("How long a guest may take to let go of a device.")] = 20.0
    image_cache_seconds: Annotated[
        float, Meta(ge=0, description="How long a host keeps an image that no disk is made upon any more.")
    ] = 3600.0


class Volumes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The volume back end inside this process."""

    backend: Annotated[
        Literal["sim", "files", "none"],
        _doc("`sim`: no bytes; `files`: qcow2 files in the data directory, the default with QEMU."),
    ] = "sim"
    capacity_gb: Annotated[int, Meta(ge=1, description="What the back end can hold, GiB.")] = 10240


class Images(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Images: what is taken in, and from where."""

    size_limit_gb: Annotated[int, Meta(ge=1, description="The largest image that is taken, GiB.")] = 1024
    web_download: Annotated[bool, _doc("Let users import from an address on the web.")] = True
    import_private: Annotated[
        bool, _doc("Let users import from addresses that are not public: loopback, private, link-local.")
    ] = False
    import_seconds: Annotated[Positive, _doc("A download that takes longer is given up.")] = 3600.0


class Reconcile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long things may take. Seconds."""

    patience: Annotated[
        Positive, _doc("How long a silent or failing agent is waited for before the work goes on without it.")
    ] = 60.0
    poll: Annotated[Positive, _doc("How long an agent's question for news stays open.")] = 25.0
    build_attempts: Annotated[int, Meta(ge=1, description="Hosts tried before a build gives up.")] = 3
    build_time: Annotated[Positive, _doc("A build that takes longer gives up.")] = 600.0
    offload_after: Annotated[
        float, _doc("Time from shelved to offloaded; 0 for at once, negative for never by itself.")
    ] = 0.0
    confirm_after: Annotated[Natural, _doc("Time until a resize is confirmed by itself; 0 for never.")] = 0.0
    reclaim_after: Annotated[
        Natural, _doc("Time from a soft delete to the real one; 0: servers are deleted at once.")
    ] = 0.0
    sweep: Annotated[Positive, _doc("Time between two sweeps.")] = 60.0
    sweep_floor: Annotated[Positive, _doc("Nothing younger is called an orphan.")] = 30.0
    stuck_after: Annotated[Positive, _doc("How long something may wait before the sweep tells of it.")] = (
        600.0
    )
    history_days: Annotated[
        Positive, _doc("How many days deleted servers and their actions stay readable.")
    ] = 90.0


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens and passwords."""

    token_hours: Annotated[float, Meta(gt=0, le=744, description="Life of a token, hours.")] = 24.0
    region: Annotated[str, _doc("Name of the region in the catalogue.")] = "RegionOne"
    admin_password: Annotated[
        str,
        _doc("Password of the user admin of a new cloud; empty draws one. Later changes of this do nothing."),
    ] = ""
    demo_password: Annotated[str, _doc("The same for the user demo.")] = ""
    hash_memory_kib: Annotated[int, Meta(ge=8, description="Memory that hashing a password takes, KiB.")] = (
        19456
    )
    hash_passes: Annotated[int, Meta(ge=1, description="Passes that hashing a password takes.")] = 2
    throttle_failures: Annotated[
        int, Meta(ge=1, description="Failed logins of one user from one address before more must wait.")
    ] = 20
    throttle_seconds: Annotated[Positive, _doc("How long they must wait.")] = 60.0
    lockout_failures: Annotated[Count, _doc("Failed logins before a user is locked; 0 for never.")] = 0
    lockout_seconds: Annotated[Positive, _doc("How long a locked user stays locked.")] = 1800.0
    inactive_days: Annotated[
        Count, _doc("Days without a login after which a user counts as disabled; 0 for never.")
    ] = 0
    password_days: Annotated[Count, _doc("Days until a password expires; 0 for never.")] = 0
    password_history: Annotated[
        Count, _doc("How many of a user's last passwords, with the present one, may not be set again.")
    ] = 0
    password_minimum_days: Annotated[
        Count, _doc("Days before a user may change a password again; 0 for at once.")
    ] = 0
    password_regex: Annotated[str, _doc("What a password must match; empty for anything.")] = ""
    password_regex_description: Annotated[str, _doc("The same in words, for the user.")] = ""
    password_change_first: Annotated[
        bool, _doc("A user whose password was set by an administrator must change it before the first login.")
    ] = False


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings."""

    data: Annotated[str, _doc("The data directory; empty for `$XDG_DATA_HOME/cumulet`.")] = ""
    roles: Annotated[tuple[Literal["api", "reconcile", "agent"], ...], _doc("What this process does.")] = (
        "api",
        "reconcile",
        "agent",
    )
    policy_file: Annotated[
        str, _doc("A file with policy rules in place of the defaults, see `docs/policy.md`; empty for none.")
    ] = ""
    faults: Annotated[bool, _doc("Serve the fault rules; always on while every host is simulated.")] = False
    server: Server = Server()
    log: Log = Log()
    database: Database = Database()
    hosts: Hosts = Hosts()
    volumes: Volumes = Volumes()
    images: Images = Images()
    reconcile: Reconcile = Reconcile()
    auth: Auth = Auth()

    @property
    def directory(self) -> Path:
        """The data directory."""
        if self.data:
            return Path(self.data).expanduser()
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Path(base).expanduser() / "cumulet"

    @property
    def option(self) -> str:
        """What a command that is told to the user needs behind it, so that it means the same cloud."""
        return f" --data {shlex.quote(self.data)}" if self.data else ""


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Read the settings. ``flags`` is a tree like the file's; None values in it do not count.

    Raises Refused that names the file and the setting.
    """
    tree: dict[str, Any] = {}
    if file is not None:
        try:
            tree = tomllib.loads(file.read_text())
        except OSError as error:
            raise Refused(f"The settings in {file} cannot be read: {error.strerror}.", 2) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Refused(f"The settings in {file} are not valid TOML: {error}.", 2) from error
    _merge(tree, _from_environment(environment))
    _merge(tree, flags or {})
    try:
        found = msgspec.convert(tree, Config, strict=False)
    except msgspec.ValidationError as error:
        where = f" in {file}" if file else ""
        variable = _variable(str(error))
        if variable in environment:
            where = f" in the environment variable {variable}"
        raise Refused(f"The settings{where} are not valid: {error}. See docs/settings.md.", 2) from error
    try:
        re.compile(found.auth.password_regex)
    except re.error as error:
        raise Refused(
            f"The setting auth.password_regex, {found.auth.password_regex!r}, is no regular expression: {error}.",
            2,
        ) from error
    if found.hosts.hypervisor == "qemu" and "backend" not in tree.get("volumes", {}):
        # Guests of this machine can open files, and what a simulated back end has is nothing to open.
        return msgspec.structs.replace(found, volumes=msgspec.structs.replace(found.volumes, backend="files"))
    return found


def _settings() -> dict[str, tuple[str, str]]:
    """Every setting's section, "" if it is in none, and name, by its environment variable."""
    found: dict[str, tuple[str, str]] = {}
    for field in msgspec.structs.fields(Config):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            for inner in msgspec.structs.fields(field.type):
                found[f"CUMULET_{field.name}_{inner.name}".upper()] = field.name, inner.name
        else:
            found[f"CUMULET_{field.name}".upper()] = "", field.name
    return found


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping):
            inner = tree.setdefault(name, {})
            if isinstance(inner, dict):
                _merge(inner, value)
        elif value is not None:
            tree[name] = value


def _variable(complaint: str) -> str:
    """The environment variable of the setting that a complaint names: ``… - at `$.server.port` ``."""
    _, _, path = complaint.partition("`$.")
    return "CUMULET_" + path.partition("`")[0].replace(".", "_").upper()


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """What the variables say. Raises Refused for one that begins like a section and names no setting of it."""
    settings = _settings()
    sections = tuple({f"CUMULET_{section}_".upper() for section, _ in settings.values() if section})
    found: dict[str, Any] = {}
    for variable in sorted(environment):
        section, name = settings.get(variable, ("", ""))
        if name:
            value = environment[variable]
            place = found.setdefault(section, {}) if section else found
            place[name] = value.split(",") if name == "roles" else value
        elif variable.startswith(sections):
            raise Refused(f"The environment variable {variable} is no setting. See docs/settings.md.", 2)
    return found
