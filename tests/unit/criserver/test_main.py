"""The start of the runtime server."""

import pytest

from pykubelet.criserver import programs
from pykubelet.criserver.plan.start import COMMANDS, time_for_repairs, was_rebooted


@pytest.mark.parametrize(("taken", "wait"), [(0.5, 3.0), (6.0, 3.0), (7.5, 1.5), (9.0, 0.0), (30.0, 0.0)])
def test_start_that_has_taken_long_waits_less_for_repairs(taken: float, wait: float) -> None:
    assert time_for_repairs(taken) == wait


def test_waits_of_a_start_add_up_to_less_than_ten_seconds() -> None:
    """A fork bomb of exec commands, programs that do not end and hung repairs, at once."""
    former = programs._PATIENCE + programs._DYING + programs._LOOK
    assert COMMANDS + former + time_for_repairs(COMMANDS + former) < 10


@pytest.mark.parametrize(("last", "rebooted"), [("", False), ("now", False), ("before", True)])
def test_machine_was_rebooted_if_another_boot_is_stored(last: str, rebooted: bool) -> None:
    assert was_rebooted(last, "now") is rebooted
