"""The decision about a server that is found."""

import pytest

from pykubelet.criserver.embedded.plan.adoption import Step, step
from pykubelet.criserver.embedded.supervisor_types import ServerNote
from pykubelet.criserver.types import ProcessRef

WANTED = ServerNote(ProcessRef(0, 0), "2", "aa", True)


def found(version: str = "2", settings: str = "aa", kept: bool = True) -> ServerNote:
    return ServerNote(ProcessRef(7, 70), version, settings, kept)


@pytest.mark.parametrize(
    ("note", "alive", "expected"),
    [
        (None, False, Step.START),
        (found(), False, Step.START),
        (found(), True, Step.ADOPT),
        (found(kept=False), True, Step.ADOPT),
        (found(version="1"), True, Step.REPLACE),
        (found(settings="bb"), True, Step.REPLACE),
        (found(version="1", kept=False), True, Step.TOLERATE),
        (found(settings="bb", kept=False), True, Step.TOLERATE),
        (found(version="1"), False, Step.START),
    ],
)
def test_step_is_chosen_by_the_record_of_the_running_server(
    note: ServerNote | None, alive: bool, expected: Step
) -> None:
    assert step(note, alive, WANTED) is expected
