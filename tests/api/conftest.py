"""What most tests of the API begin with; a module that needs another cloud has its own ``cloud``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cloud import TestCloud, running_cloud
from tests.servers import make_image

from cumulet.db.engine import Database


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    """A cloud whose workers and agents are at work."""
    async with running_cloud(db, directory) as made:
        yield made


@pytest.fixture
async def image(cloud: TestCloud) -> str:
    """An image to boot from."""
    return await make_image(cloud)
