"""The schema as it was written down is the one of the tables."""

from __future__ import annotations

import pytest

from cumulet.db import migrate


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_statements_that_were_written_down_are_those_of_the_tables(dialect: str) -> None:
    written = migrate.written(dialect)
    # None: the tables changed since "make docs", and SQLAlchemy makes the statements at every start.
    assert written is not None, "run make docs"
    assert written == migrate.compiled(dialect)
