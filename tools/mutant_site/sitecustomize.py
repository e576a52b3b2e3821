"""Loaded by each Python program that a test starts under ``make mutants``: the change applies to that program, too.

The environment names the file and module that are changed, the code that replaces it (``CODE``), and a file to which a
row is appended for each function of the module that is executed (``NOTES``), with the number of the test.
"""

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType

_PREFIX = "PYKUBELET_MUTANT_"
_FILE = os.environ.get(f"{_PREFIX}FILE", "")
_MODULE = os.environ.get(f"{_PREFIX}MODULE", "")
_CODE = os.environ.get(f"{_PREFIX}CODE", "")
_NOTES = os.environ.get(f"{_PREFIX}NOTES", "")
_TEST = os.environ.get(f"{_PREFIX}TEST", "0")


class _Loader(SourceFileLoader):
    """Loads the changed code in place of the module's own."""

    def get_code(self, fullname: str) -> CodeType:
        with open(_CODE, "rb") as file:
            code: CodeType = marshal.load(file)
        return code


class _Finder:
    """Finds only the changed module."""

    @staticmethod
    def find_spec(name: str, path: list[str] | None = None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _MODULE else None
        if spec is not None:
            spec.loader = _Loader(name, _FILE)
        return spec


def _trace(notes: int) -> None:
    seen = set[CodeType]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename == _FILE and code not in seen:
            seen.add(code)
            os.write(notes, f"{_TEST}\t{code.co_qualname}\t{code.co_firstlineno}\n".encode())

    sys.settrace(note)


if _CODE:
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]  # the protocol is optional in its parts
elif _NOTES:
    _trace(os.open(_NOTES, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
