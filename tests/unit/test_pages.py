"""The pages that are made from the program are as the program is."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cumulet import compatibility, pages
from cumulet.app import AREAS
from cumulet.config import Config
from cumulet.exits import CODES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted([*pages.PAGES, *pages.ENDS]))
def test_a_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == pages.page(name, DOCS), "run make docs"


def test_every_served_route_of_a_service_has_a_line() -> None:
    table = compatibility.table()
    for area in AREAS:
        for route in area.routes if area.name in compatibility.SERVICES else ():
            place = re.escape(re.sub(r"\{[^}]*\}", "{}", route.path).rstrip("/") or "/")
            anonymous = re.sub(r"\{[^}]*\}", "{}", table)
            assert re.search(
                rf"\| `{place}/?` \| {re.escape(route.action)} \| [^|]*{route.method}", anonymous
            ), route


def test_a_route_that_upstream_has_alone_is_told() -> None:
    """Were it served, this test would have to name another."""
    assert "| `/v3/OS-REVOKE/events` |  | GET |  | **not served** |" in compatibility.table()


def test_every_setting_has_a_line_with_words() -> None:
    page = pages.settings()
    for field in msgspec.structs.fields(Config):
        inner = msgspec.structs.fields(field.type) if isinstance(field.type, type) else ()
        for variable in [f"CUMULET_{field.name}_{it.name}" for it in inner] or [f"CUMULET_{field.name}"]:
            line = next(line for line in page.splitlines() if f"`{variable.upper()}`" in line)
            assert len(line.split("|")[-2].strip()) > 10, line


def test_every_exit_code_says_what_to_do() -> None:
    for code, (meaning, hint) in CODES.items():
        assert meaning
        assert hint or code == 0
