"""The start of the runtime server."""

import pytest

from pykubelet.criserver import main, programs


@pytest.mark.parametrize(("taken", "wait"), [(0.5, 3.0), (6.0, 3.0), (7.5, 1.5), (9.0, 0.0), (30.0, 0.0)])
def test_start_that_has_taken_long_waits_less_for_repairs(taken: float, wait: float) -> None:
    assert main.time_for_repairs(taken) == wait


def test_waits_of_a_start_add_up_to_less_than_ten_seconds() -> None:
    """A fork bomb of exec commands, programs that do not end and hung repairs, at once."""
    former = programs._PATIENCE + programs._DYING + programs._LOOK
    assert main._COMMANDS + former + main.time_for_repairs(main._COMMANDS + former) < 10
