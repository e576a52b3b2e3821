"""Tests wait for conditions: a fixed sleep is too short on a busy machine, and too long on every other."""

import ast
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
_ALLOWED = {
    "faults/test_agent_churn.py": "polls for the verdict up to a limit, and returns it",
    "faults/test_criserver_ends.py": "polls up to a limit; the moment at which the client goes is the test",
    "faults/test_criserver_model.py": "polls for agreement up to a limit, and tells what disagrees",
    "faults/test_streams_broken.py": "polls for closed descriptors up to a limit, and tells how many are open",
    "fuzz/criserver.py": "the time is simulated",
    "unit/criserver/storage/test_usage.py": "it is the work of the thread under test",
    "unit/kubelet/observe/stats/test_volume_usage.py": "it is the work of the thread under test",
}
"""File: why a sleep there is no wait for something that could be asked for."""


def _fixed_sleeps(text: str) -> list[int]:
    """The lines of ``asyncio.sleep`` and ``time.sleep`` with a number above 0."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio" | "time"), attr="sleep"),
                args=[ast.Constant(value=int() | float() as seconds), *_],
            ) if seconds > 0:
                found.append(node.lineno)
    return sorted(found)


def _found() -> dict[str, list[int]]:
    files = {str(path.relative_to(_TESTS)): _fixed_sleeps(path.read_text()) for path in _TESTS.rglob("*.py")}
    return {name: lines for name, lines in files.items() if lines}


def test_tests_have_no_fixed_sleeps() -> None:
    unexpected = {name: lines for name, lines in _found().items() if name not in _ALLOWED}
    assert unexpected == {}, "wait for a condition: pykubelet.testing.wait, or wait_for of pykubelet.testing.agent"


def test_every_exception_for_fixed_sleeps_is_still_needed() -> None:
    assert _ALLOWED.keys() - _found().keys() == set()


def test_fixed_sleeps_are_recognized() -> None:
    text = "asyncio.sleep(0)\nasyncio.sleep(0.1)\ntime.sleep(2, None)\ntime.sleep(pause)\nclock.sleep(3)\n"
    assert _fixed_sleeps(text) == [2, 3]
