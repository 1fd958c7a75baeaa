"""An operator's policy rules, in the file format of the OpenStack services: names of rules, and checks.

    "os_compute_api:servers:create": "role:builder and project_id:%(project_id)s"

YAML, of which JSON is a part. A check is text, or, as in old files, a list of lists of single checks: any of the inner
lists, each of which must pass whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cumulet.core.policy import Policy, leaves
from cumulet.errors import Refused
from cumulet.exits import BAD_SETTINGS

#: No file is that long: all rules of all services are a tenth of it.
_LIMIT = 4 << 20


def read(path: Path) -> dict[str, str]:
    """The rules of a file: name → check. Raises Refused, which names the file and the rule."""
    import yaml  # type: ignore[import-untyped]  # only here: most clouds start without a file

    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT + 1)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from error
    if len(text) > _LIMIT:
        raise _refused(path, f"cannot be read: it is larger than {_LIMIT} bytes")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise _refused(path, f"are not valid YAML: {reason}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _refused(path, "are not valid: names of rules and their checks were expected")
    return {str(name): _check(path, str(name), check) for name, check in found.items()}


def _check(path: Path, name: str, check: Any) -> str:
    if isinstance(check, str):
        return check
    if isinstance(check, list):
        inner = [[one] if isinstance(one, str) else one for one in check]
        if all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in inner):
            return " or ".join("(" + " and ".join(words) + ")" for words in inner if words)
    raise _refused(
        path,
        f'are not valid: the check of {name!r} is neither text nor a list of lists of text; "@" allows '
        'everybody, "!" nobody',
    )


def verify(file: str, policy: Policy, rules: Mapping[str, str]) -> None:
    """Raise Refused, naming file and rule, if a rule of the file cannot be followed."""
    try:
        policy.verify(rules)
    except ValueError as error:
        raise _refused(Path(file), f"are not valid: {error}") from None


def unasked(defaults: Policy, rules: Mapping[str, str]) -> list[str]:
    """Names in the file that no route asks for, and no other rule of the file: misspelt, or of what is not served."""
    named = {
        word.partition(":")[2] for check in rules.values() for word in leaves(check) if word[:5] == "rule:"
    }
    return sorted(set(rules) - set(defaults.checks) - named)


def _refused(path: Path, what: str) -> Refused:
    return Refused(f"The policy rules in {path} {what}. See docs/policy.md.", BAD_SETTINGS)


def text(checks: Mapping[str, str], uses: Mapping[str, Sequence[str]]) -> str:
    """Rules as a policy file, each below the requests that ask for it."""
    lines = []
    for name in sorted(checks):
        lines += [f"# {use}" for use in uses.get(name, ())]
        lines.append(f"{_quoted(name)}: {_quoted(checks[name])}")
    return "\n".join(lines)


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
