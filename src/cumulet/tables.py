"""What commands print: JSON for programs, plain tables for people."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

#: Kinds of findings, as headings.
FINDINGS = {
    "lost": "Lost",
    "missing": "Missing, to be made anew",
    "failing": "Failing",
    "drift": "Not as the ledger says",
    "silent": "Not heard, so not compared",
    "debt": "Owed",
    "orphan": "Unknown to the ledger",
    "stuck": "Waiting too long",
    "plan": "Not as its own rows say",
    "holder": "Held by nobody",
    "reference": "Naming what is not there",
    "allocation": "Allocations",
    "provider": "Hosts at placement",
    "attachment": "Attachments",
    "port": "Ports",
    "migration": "Moves",
    "address": "Addresses",
}


def show(found: Any, as_json: bool, render: Callable[[Any], str]) -> None:
    """Print what was found."""
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        click.echo(render(found))


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as they need to be."""
    lines = [tuple(heads), *(tuple("" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def moment(seconds: float | None) -> str:
    """A time for people."""
    if seconds is None:
        return ""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def status(found: Mapping[str, Any]) -> str:
    health = found["health"]
    lines = [
        f"Cumulet {found['version']} serves at {found['url']}",
        f"  status   {health['status']}",
        f"  process  {found['pid']}, since {moment(found['started_at'])}",
        f"  data     {found['data']} ({health['database']})",
        "  agents   " + ", ".join(f"{number} {state}" for state, number in health["agents"].items()),
    ]
    if "counts" in found:
        lines.append(
            "  holds    " + ", ".join(f"{number} {name}" for name, number in found["counts"].items())
        )
    return "\n".join(lines)


def agents(found: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("KIND", "NAME", "STATE", "CLAIMS", "DEBTS", "ORPHANS", "HEARD"),
        (
            (a["kind"], a["name"], a["state"], a["claims"], a["debts"], a["orphans"], moment(a["seen_at"]))
            for a in found
        ),
    )


def audit(found: Mapping[str, Any], option: str = "") -> str:
    """The findings; ``option`` is what a command needs that means this cloud."""
    parts = []
    if found["report_only"]:
        parts.append(
            f"REPORT-ONLY since {moment(found['report_only']['since'])}: {found['report_only']['reason']}. Nothing is made or "
            f"removed until 'cumulet audit{option} --accept'."
        )
    for kind, title in FINDINGS.items():
        some = [one for one in found["findings"] if one["kind"] == kind]
        if some:
            parts.append(f"{title}:\n" + _findings(some))
    told = {one["id"] for one in found["findings"] if one["kind"] == "stuck"}
    waiting = [one for one in found["waiting"] if one["id"] not in told]
    if waiting:
        waits = ((h["kind"], h["id"], h["rule"], h["reason"], moment(h["waiting_since"])) for h in waiting)
        parts.append("Waiting:\n" + table(("KIND", "ID", "RULE", "REASON", "SINCE"), waits))
    parts.append("Counts: " + ", ".join(f"{number} {name}" for name, number in found["summary"].items()))
    return "\n\n".join(parts)


def _findings(some: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("ID", "WHAT", "SINCE", ""),
        (
            (
                one["id"],
                one["message"],
                moment(one["since"] or None),
                "fixed" if one["fixed"] else "--fix puts it right" if one["proven"] else "",
            )
            for one in some
        ),
    )


def settings(found: Mapping[str, Any]) -> str:
    rows = []
    for name, value in found.items():
        if isinstance(value, Mapping):
            rows += [(f"{name}.{inner}", _value(inner, it)) for inner, it in value.items()]
        else:
            rows.append((name, _value(name, value)))
    return table(("SETTING", "VALUE"), rows)


def _value(name: str, value: Any) -> str:
    if "password" in name and name.endswith("password") and value:
        return "***"
    return ",".join(value) if isinstance(value, list | tuple) else str(value)
