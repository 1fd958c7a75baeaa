"""Pages of the documentation that are made from the program itself: ``python -m cumulet.pages`` writes them to docs/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click
import msgspec

from cumulet import app, compatibility
from cumulet.config import Config
from cumulet.db import migrate
from cumulet.exits import CODES


def settings() -> str:
    """docs/settings.md"""
    lines = [
        "# Settings",
        "",
        "<!-- Made from src/cumulet/config.py by `make docs`. -->",
        "",
        "A setting is taken from the file that `--config FILE` names (TOML), from an environment variable, or from a flag;",
        "the later goes before the earlier. `cumulet settings` shows the values in force. What is not known is refused, with",
        "the name of the file and of the setting; an environment variable, where it begins like those of a section.",
        "",
        "| setting | environment | type | default | |",
        "| --- | --- | --- | --- | --- |",
    ]
    tables = []
    hints = get_type_hints(Config, include_extras=True)
    for field in msgspec.structs.fields(Config):
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            tables.append((field.name, hint))
        else:
            lines.append(_line(field.name, f"CUMULET_{field.name}", hint, field.default))
    for name, struct in tables:
        lines += ["", f"## [{name}]", "", (struct.__doc__ or "").strip(), ""]
        lines += ["| setting | environment | type | default | |", "| --- | --- | --- | --- | --- |"]
        inner = get_type_hints(struct, include_extras=True)
        for field in msgspec.structs.fields(struct):
            lines.append(_line(field.name, f"CUMULET_{name}_{field.name}", inner[field.name], field.default))
    return "\n".join(lines) + "\n"


def _line(name: str, variable: str, hint: Any, default: Any) -> str:
    text = next(
        (m.description for m in getattr(hint, "__metadata__", ()) if getattr(m, "description", None)), ""
    )
    shown = (
        ",".join(default)
        if isinstance(default, tuple)
        else str(default).lower()
        if default in (True, False)
        else default
    )
    return f"| `{name}` | `{variable.upper()}` | {_type(hint)} | {f'`{shown}`' if shown != '' else ''} | {text} |"


def _type(hint: Any) -> str:
    base, metas = hint, []
    while get_origin(base) is Annotated:
        metas += base.__metadata__
        base = get_args(base)[0]
    origin, args = get_origin(base), get_args(base)
    if origin is tuple:
        return "list of " + _type(args[0])
    if args:
        return ", ".join(f"`{arg}`" for arg in args)
    limits = []
    for meta in metas:
        for word, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            if getattr(meta, word, None) is not None:
                limits.append(f"{sign} {getattr(meta, word)}")
    name = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}[base.__name__]
    return " ".join([name, *limits])


def exit_codes() -> str:
    """docs/exit-codes.md"""
    lines = [
        "# Exit codes",
        "",
        "<!-- Made from src/cumulet/exits.py by `make docs`. -->",
        "",
        "Whatever a command refuses it says in one line on standard error, with what to do, and nothing is lost.",
        "",
        "| code | meaning | what to do |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {code} | {meaning} | {hint} |" for code, (meaning, hint) in CODES.items()]
    lines.append("| 130 | Interrupted by Ctrl-C. | |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """docs/cli.md"""
    from cumulet.cli import cli

    lines = ["# Commands", "", "<!-- Made from src/cumulet/cli.py by `make docs`. -->", ""]
    _command(cli, "cumulet", lines)
    return "\n".join(lines).rstrip("\n") + "\n"


def _command(command: click.Command, path: str, lines: list[str]) -> None:
    context = click.Context(command, info_name=path, max_content_width=110, terminal_width=110)
    lines += [f"## {path}", "", "```", command.get_help(context), "```", ""]
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            _command(command.commands[name], f"{path} {name}", lines)


PAGES = {"settings.md": settings, "exit-codes.md": exit_codes, "cli.md": commands}


def policy_rules() -> str:
    """The end of docs/policy.md."""
    made, uses = app.policy(), app.uses()
    lines = ["| rule | default | for |", "| --- | --- | --- |"]
    for name in sorted(made.checks):
        check = made.checks[name].replace("|", "\\|")
        shown = f"`{check}`" if check else "everybody"
        lines.append(f"| `{name}` | {shown} | {'<br>'.join(f'`{use}`' for use in uses.get(name, ()))} |")
    return "\n".join(lines) + "\n"


#: Pages whose beginning, up to MADE, is written by hand.
ENDS = {"compatibility.md": compatibility.table, "policy.md": policy_rules}
MADE = "<!-- From here on made from the program by `make docs`. -->\n"


def page(name: str, directory: Path = Path("docs")) -> str:
    """A page as the program would write it."""
    if name in PAGES:
        return PAGES[name]()
    begin, made, _ = (directory / name).read_text().partition(MADE)
    if not made:
        raise ValueError(f"{name} lacks the line {MADE.strip()}")
    return f"{begin}{MADE}\n{ENDS[name]()}"


def outdated(directory: Path = Path("docs")) -> list[str]:
    """Names of pages that are not as the program would write them."""
    return [
        name
        for name in (*PAGES, *ENDS)
        if not (directory / name).exists() or (directory / name).read_text() != page(name, directory)
    ] + [f"{dialect}.sql" for dialect in ("sqlite", "postgresql") if migrate.written(dialect) is None]


def main(directory: Path = Path("docs")) -> None:
    """Write the pages; with --check, fail if that would change one."""
    if "--check" in sys.argv:
        found = outdated(directory)
        if found:
            sys.exit(f"{', '.join(found)} not up to date: run make docs")
        return
    for name in (*PAGES, *ENDS):
        (directory / name).write_text(page(name, directory))
    migrate.write_down()


if __name__ == "__main__":
    main()
