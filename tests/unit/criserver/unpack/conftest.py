"""The process that unpacks layers for the tests of this directory."""

from collections.abc import Iterator

import pytest

from tests.unit.criserver.unpack.extraction import RUNNING
from tests.unit.criserver.unpack.forks import forks


@pytest.fixture(scope="session", autouse=True)
def _forks() -> Iterator[None]:
    """Start before the first test counts its descriptors."""
    with forks() as process:
        RUNNING.append(process)
        yield
        RUNNING.clear()
