"""Runs of tests by `make mutants`: the tests that a change concerns, and their order."""

import subprocess
import sys
import threading
from pathlib import Path
from types import CodeType

import pytest

from tools import mutant_runs, mutations
from tools.mutant_runs import Record, differing
from tools.mutations import mutants_of

INNER = "outer" if sys.version_info >= (3, 12) else "outer.<locals>.<listcomp>"
"""The function of a list comprehension; since Python 3.12 it is the one around it (PEP 709)."""

MODULE = """
def outer(a):
    def inner(b):
        return b + 1
    return [each + inner(each) for each in a]

def two(a):
    return [*(each < 1 for each in a), *(each > 1 for each in a)]

async def later():
    return 1
"""


def compiled(source: str) -> CodeType:
    return compile(source, "module.py", "exec")


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("b + 1", "b + 2", {"outer.<locals>.inner"}),
        ("b + 1", "b - 1", {"outer.<locals>.inner"}),
        ("each + inner", "each - inner", {INNER}),
        ("    return 1", "    return 2", {"later"}),
        ("in a]", "in a[1:]]", {"outer"}),
        ("each < 1", "each <= 1", {"two.<locals>.<genexpr>"}),
        ("each > 1", "each >= 1", {"two.<locals>.<genexpr>"}),
        ("b + 1", "(b + 1)", set()),
    ],
)
def test_a_change_concerns_only_the_innermost_function(before: str, after: str, names: set[str]) -> None:
    changed = compiled(MODULE.replace(before, after))

    assert {name for name, _ in differing(compiled(MODULE), changed)} == names


def test_tests_of_a_function_are_chosen_the_fastest_first() -> None:
    record = Record({("f", 1): {0, 1, 2}, ("g", 5): {3}}, {0: 2.0, 1: 0.1, 2: 0.5, 3: 0.2})

    assert record.choose({("f", 1)}) == [1, 2, 0]
    assert record.choose({("f", 1), ("g", 5)}) == [1, 3, 2, 0]
    assert record.choose({("unknown", 1)}) == []


def test_recorder_notes_functions_in_threads_once_per_test(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("def f():\n    return 1\ndef g():\n    return f()\n")
    module: dict[str, object] = {}
    exec(compile(source.read_text(), str(source), "exec"), module)
    with (tmp_path / "notes").open("w+b") as notes:
        recorder = mutant_runs._Recorder(str(source), notes.fileno())
        recorder.start({})
        try:
            thread = threading.Thread(target=module["g"])  # type: ignore[arg-type]
            thread.start()
            thread.join()
            module["f"]()  # type: ignore[operator]
        finally:
            recorder.stop()
        notes.seek(0)
        rows = sorted(notes.read().decode().splitlines())

    assert rows == ["0\tf\t1", "0\tg\t3"]


SUPER = """
class Base:
    def __init__(self):
        self.made = True

class Derived(Base):
    def __init__(self):
        super().__init__()
"""


def test_removed_call_of_the_base_class_is_put_in_place() -> None:
    """The function keeps its variable ``__class__``, without which the code of a function cannot be replaced."""
    module: dict[str, object] = {}
    exec(compiled(SUPER), module)
    (mutant,) = (each for each in mutants_of("m.py", SUPER) if "super()" in each.name)
    changed = mutations.compiled(mutant, SUPER).replace(co_filename="module.py")
    derived = module["Derived"]
    assert isinstance(derived, type)
    mutant_runs.install(changed, [derived.__init__])  # type: ignore[misc]  # a function
    assert not hasattr(derived(), "made")


@pytest.mark.parametrize("name", ["f", "failed", "seconds"])
def test_programs_that_tests_start_run_the_changed_module_and_note_what_they_execute(tmp_path: Path, name: str) -> None:
    """Functions may be named like other things that are noted."""
    package = tmp_path / "src" / "parts"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    source = package / "part.py"
    source.write_text(f"def {name}():\n    return 1\n")
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys\n"
        "def test_it():\n"
        f"    argv = [sys.executable, '-c', 'from parts.part import {name}; print({name}())']\n"
        f"    assert subprocess.run(argv, cwd={str(package.parent)!r}, capture_output=True).stdout == b'1\\n'\n"
    )
    script = (
        "import pathlib\n"
        "from tools.mutant_runs import with_tests\n"
        f"changed = compile('def {name}():\\n    return 2\\n', {str(source)!r}, 'exec')\n"
        "def judge(runs):\n"
        f"    pathlib.Path({str(tmp_path / 'told')!r}).write_text(\n"
        "        f'{runs.record.executed} {runs.pass_with(changed, [0])}'\n"
        "    )\n"
        f"with_tests([{str(tmp_path / 'test_it.py')!r}, '--rootdir={tmp_path}'], {str(source)!r}, judge)\n"
    )
    root = Path(mutant_runs.__file__).parents[1]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, timeout=300)
    assert (tmp_path / "told").read_text() == f"{{('<module>', 1): {{0}}, ('{name}', 1): {{0}}}} False"
