"""Checks the table of guarded loops by what happens: in a test that it names, an item of the loop has to raise."""

from collections.abc import Generator
from pathlib import Path

import pytest

from pykubelet.base.concurrency.guard import item_failures
from tests.unit.loop_injections import loops_of

_HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test of ``INJECTIONS`` during which no item of its loop has failed."""
    loops = loops_of(str(item.path.relative_to(_HERE)), item.name)
    before = item_failures()
    result = yield
    after = item_failures()
    silent = [loop for loop in loops if after.get(loop, 0) == before.get(loop, 0)]
    if silent:
        pytest.fail(f"loop_injections.py names this test for {silent}, but no item of it has raised")
    return result
