"""The user's own clouds.yaml keeps everything that is not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cumulet import clouds
from cumulet.datadir import Secrets
from cumulet.errors import Refused

ENTRIES = clouds.clouds("http://127.0.0.1:5000", "RegionOne", Secrets("it's", 'a "secret": #1'))


def merged(path: Path, before: str) -> tuple[str, dict[str, Any]]:
    path.write_text(before)
    clouds.merge(path, ENTRIES)
    text = path.read_text()
    return text, yaml.safe_load(text)


def test_a_new_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "openstack/clouds.yaml"
    assert clouds.merge(path, ENTRIES) is None
    assert yaml.safe_load(path.read_text()) == {"clouds": ENTRIES}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# only a comment\n",
        "clouds:\n  a: {auth: {auth_url: x}}\n",
        "clouds:\n    a:\n        auth_type: none\n    # the end of a\n    b:\n        x: 1\n# last\n",
        "clouds:\n  a:\n    x: 1",
        "cache:\n  expiration_time: 3600\nclouds:\n  a:\n    x: 1\n\n# of what follows\nclient:\n  force_ipv4: true\n",
        "clouds:\n  cumulet:\n    auth: {auth_url: old}\n    more: 1\n  z:\n    x: 1\n",
        "clouds:\n  z:\n    x: |\n      several\n      lines\n  cumulet-demo:\n    old: true\n",
        "client: {}\n",
    ],
)
def test_other_clouds_comments_and_order_stay(tmp_path: Path, before: str) -> None:
    text, found = merged(tmp_path / "clouds.yaml", before)
    old = yaml.safe_load(before) or {}
    assert found == {**old, "clouds": {**(old.get("clouds") or {}), **ENTRIES}}
    for line in before.splitlines():
        if line.lstrip().startswith("#"):
            assert line in text.splitlines()
    again, _ = merged(tmp_path / "again.yaml", text)
    assert again == text
    assert (tmp_path / "clouds.yaml.before-cumulet").read_text() == before


@pytest.mark.parametrize(
    "before", ["clouds: {a: {x: 1}}\n", "clouds: [1]\n", "- a\n", "clouds:\n  a: &x {}\n  b: [\n", "x: 'y"]
)
def test_what_cannot_be_changed_safely_is_left_alone(tmp_path: Path, before: str) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text(before)
    with pytest.raises(Refused, match=r"clouds\.yaml"):
        clouds.merge(path, ENTRIES)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_variables_are_quoted_for_a_shell() -> None:
    lines = clouds.exports(clouds.variables("http://x", "R", "admin", "it's $HOME")).splitlines()
    assert "export OS_PASSWORD='it'\"'\"'s $HOME'" in lines
    assert "export OS_AUTH_URL=http://x/identity/v3" in lines
