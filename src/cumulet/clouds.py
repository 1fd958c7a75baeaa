"""clouds.yaml and OS_* variables: how OpenStack's clients are told of the cloud.

A user's own clouds.yaml is changed as text, so that comments and other clouds stay as they are; the result
is read again, and nothing is written unless it says what was meant.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cumulet.datadir import Secrets, usable, write_private
from cumulet.errors import Refused
from cumulet.exits import FAILED, NOT_WRITABLE

#: Cloud's name in clouds.yaml → user (and project) of the same name.
USERS: Mapping[str, str] = {"cumulet": "admin", "cumulet-demo": "demo"}


def password(secrets: Secrets, user: str) -> str:
    return secrets.admin_password if user == "admin" else secrets.demo_password


def variables(url: str, region: str, user: str, secret: str) -> dict[str, str]:
    """The OS_* variables of one of the first users."""
    return {
        "OS_AUTH_URL": f"{url}/identity/v3",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": user,
        "OS_PASSWORD": secret,
        "OS_PROJECT_NAME": user,
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_REGION_NAME": region,
    }


def exports(variables: Mapping[str, str]) -> str:
    """The variables as lines for a shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def clouds(url: str, region: str, secrets: Secrets) -> dict[str, Any]:
    """The clouds as clouds.yaml has them."""
    return {
        name: {
            "auth_type": "password",
            "auth": {
                "auth_url": f"{url}/identity/v3",
                "username": user,
                "password": password(secrets, user),
                "project_name": user,
                "user_domain_name": "Default",
                "project_domain_name": "Default",
            },
            "region_name": region,
            "identity_api_version": 3,
            "interface": "public",
        }
        for name, user in USERS.items()
    }


def write(path: Path, entries: Mapping[str, Any]) -> None:
    """A clouds.yaml with these clouds only, mode 0600."""
    write_private(path, "clouds:\n" + "".join(_block(name, entry, "  ") for name, entry in entries.items()))


def _block(name: str, entry: Mapping[str, Any], indent: str) -> str:
    lines = [f"{indent}{name}:"]
    for key, value in entry.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}  {key}:")
            lines += [f"{indent}    {k}: {_scalar(v)}" for k, v in value.items()]
        else:
            lines.append(f"{indent}  {key}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def user_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's own clouds.yaml."""
    given = environment.get("OS_CLIENT_CONFIG_FILE")
    if given:
        return Path(given)
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "openstack" / "clouds.yaml"


def merge(path: Path, entries: Mapping[str, Any]) -> Path | None:
    """Put the clouds into the user's file; what else is in it stays. Returns the backup, None for a new file.

    Raises Refused, and leaves the file as it is, if it cannot be understood.
    """
    import yaml  # type: ignore[import-untyped]

    with usable(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            before = path.read_text()
        except FileNotFoundError:
            write(path, entries)
            return None
        except UnicodeDecodeError as error:
            raise Refused(f"{path} is not text: {error}. Nothing was changed.", NOT_WRITABLE) from error
    try:
        wanted = yaml.safe_load(before) or {}
        wanted["clouds"] = {**(wanted.get("clouds") or {}), **entries}
        after = before
        for name, entry in entries.items():
            after = _put(yaml.compose(after, Loader=yaml.SafeLoader), after, name, entry)
        found = yaml.safe_load(after)
    except (yaml.YAMLError, TypeError, AttributeError, ValueError) as error:
        reason = str(error).replace("\n", " ")
        raise Refused(
            f"{path} cannot be changed: {reason}. Correct it, or add the clouds by hand.", FAILED
        ) from error
    if found != wanted:
        raise Refused(
            f"{path} is written in a way that cannot be changed safely. Add the clouds by hand.", FAILED
        )
    if after == before:
        return None
    backup = path.with_name(path.name + ".before-cumulet")
    write_private(backup, before)
    write_private(path, after)
    return backup


def _put(root: Any, text: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with one cloud added or replaced; ``root``: its nodes, with their places."""
    if root is None:
        return (
            text
            + ("\n" if text and not text.endswith("\n") else "")
            + "clouds:\n"
            + _block(name, entry, "  ")
        )
    section = next((value for key, value in root.value if key.value == "clouds"), None)
    if section is None:
        return text + ("" if text.endswith("\n") else "\n") + "clouds:\n" + _block(name, entry, "  ")
    if not isinstance(section.value, list) or not section.value or section.flow_style:
        raise ValueError("its clouds are not written as an indented block")
    indent = " " * section.value[0][0].start_mark.column
    block = _block(name, entry, indent)
    for key, value in section.value:
        if key.value == name:
            start = key.start_mark.index - key.start_mark.column
            end = _end(text, value.end_mark.index)
            return text[:start] + block + text[end:]
    end = _end(text, section.value[-1][1].end_mark.index)
    gap = "" if text[:end].endswith("\n") else "\n"
    return text[:end] + gap + block + text[end:]


def _end(text: str, index: int) -> int:
    """Where a block ends: at the beginning of a line, behind its last line and before comments that follow."""
    kept = text[:index]
    stripped = kept.rstrip(" \n")
    while stripped.rsplit("\n", 1)[-1].lstrip().startswith("#"):
        stripped = stripped.rsplit("\n", 1)[0].rstrip(" \n") if "\n" in stripped else ""
    newline = text.find("\n", len(stripped))
    return len(text) if newline < 0 else newline + 1
