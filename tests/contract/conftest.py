"""One cloud and one client for all contract tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.clients import Shell
from tests.process.cumulet import Cloud, cloud


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """``cumulet up``, which must neither fail nor print a trace in all the tests."""
    with cloud(tmp_path_factory.mktemp("contract") / "data") as made:
        yield made
        assert made.stop() == 0
        assert "Traceback" not in made.output, made.output


@pytest.fixture(scope="session")
def shell(up: Cloud) -> Iterator[Shell]:
    with Shell(up) as made:
        yield made
