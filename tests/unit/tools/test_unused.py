"""tools/unused.py: unused public definitions are found, and the list of exceptions is kept exact."""

from pathlib import Path

import pytest

from tools import unused

MODULE = """
import click

__all__ = ["Exported"]

class Exported:
    field = 1

    def called(self): ...

    def forgotten(self): ...

    @property
    def shown(self): return 1

    def _private(self): ...

class Lost: ...

def left_over(): return Exported().called()

@click.command
def started_by_click(): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "pykubelet"
    (package / "pb").mkdir(parents=True)
    (package / "module.py").write_text(MODULE)
    (package / "pb" / "stubs.py").write_text("def generated(): ...\n")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_module.py").write_text("left_over()\n")
    return tmp_path


def test_unused_public_definitions_are_reported_even_if_tests_use_them(project: Path) -> None:
    found = {(each.kind, each.name) for each in unused.look(project)}
    assert found == {
        ("method", "forgotten"),
        ("property", "shown"),
        ("class", "Lost"),
        ("function", "left_over"),
    }


def test_definition_whose_name_others_use_is_reported_if_nothing_imports_it(project: Path) -> None:
    package = project / "src" / "pykubelet"
    (package / "__init__.py").write_text("from pykubelet.files import shown, lost, owner\n")
    (package / "files.py").write_text(
        "def shown(): ...\ndef lost(): ...\ndef owner(): ...\ndef by_module(): ...\ndef own(): ...\nX = own()\n"
    )
    (package / "other.py").write_text(
        "from pykubelet import files, shown\nshown(), files.by_module()\nself.owner, row.lost\n"
    )
    found = {each.name for each in unused.unimported(project) if each.path.endswith("files.py")}
    assert found == {"lost", "owner", "X"}


def test_exceptions_are_left_out_and_the_rest_is_an_error(project: Path) -> None:
    path = "src/pykubelet/module.py"
    listed = f"# comment\n\n{path}: forgotten  # reason\n{path}: shown  # reason\n{path}: Lost  # reason\n"
    status, lines = unused.check(project, listed)
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith(f"{path}:20: unused function 'left_over'")
    assert unused.check(project, f"{listed}{path}: left_over  # reason\n") == (0, [])


@pytest.mark.parametrize(
    ("exceptions", "said"),
    [
        ("src/pykubelet/module.py: called  # reason\n", "called is used, or gone"),
        ("src/pykubelet/none.py: lost  # reason\n", "lost is used, or gone"),
        ("src/pykubelet/module.py: Lost\n", "is not of the form"),
    ],
)
def test_exceptions_that_are_wrong_are_reported(project: Path, exceptions: str, said: str) -> None:
    status, lines = unused.check(project, exceptions)
    assert status == 2
    assert said in lines[0]
