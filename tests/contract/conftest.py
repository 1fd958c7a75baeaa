"""One cloud and one client for all contract tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.clients import Shell, until
from tests.process.cumulet import Cloud, cloud


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """``cumulet up``, which must neither fail nor print a trace in all the tests, and have nothing left of them."""
    with cloud(tmp_path_factory.mktemp("contract") / "data") as made:
        before = made.get("/cumulet/v1/summary")["summary"]
        yield made
        until(lambda: made.get("/cumulet/v1/summary")["summary"] == before, "the cloud to be as it was")
        assert made.stop() == 0
        assert "Traceback" not in made.output, made.output


@pytest.fixture(scope="session")
def shell(up: Cloud) -> Iterator[Shell]:
    with Shell(up) as made:
        yield made
