"""Registries that tests of images share."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.criserver.images.fakeregistry import FakeRegistry


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry().run() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry().run() as running:
        yield running
