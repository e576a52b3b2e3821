"""Run the unit tests of a module in forks of one pytest process, which has collected and imported them.

A first fork without a change records which functions of the module each test executes, and how long the test takes.
A changed module is then tried by the tests that execute a changed function, the fastest first, until one fails.
Python programs that tests start run with ``tools/mutant_site``, which records, or puts the change in place, there.
"""

import gc
import marshal
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Final

import pytest

from tools.scratch import scratch

_OPTIONS: Final = ("-q", "-x", "-p", "no:cacheprovider", "--no-header", "--timeout=0")
_SITE: Final = str(Path(__file__).with_name("mutant_site"))
_VARIABLE: Final = "PYKUBELET_MUTANT_"
_SECONDS: Final = "=seconds"
_FAILED: Final = "=failed"
"""Kinds of notes besides the names of functions, which have no such sign."""
_BROKEN: Final = 99
"""Exit status of a fork that did not run its tests."""
_BASELINE_SECONDS: Final = 600.0
_SPARE_SECONDS: Final = 10.0

Function = tuple[str, int]
"""Qualified name and first line of a code object."""


class UnusableError(Exception):
    """The tests cannot tell anything about changes: the message says why."""


@dataclass(slots=True)
class Record:
    """A run of the tests without a change. Tests are numbers: their places in the order of collection."""

    executed: dict[Function, set[int]] = field(default_factory=dict)
    """The tests that execute a function, by function. A function that only a fixture of a wider scope than a test
    executes counts for the test that sets this fixture up."""
    seconds: dict[int, float] = field(default_factory=dict)

    def choose(self, functions: set[Function]) -> list[int]:
        """The tests that execute one of the functions, the fastest first."""
        tests = set[int]().union(*(self.executed.get(each, ()) for each in functions))
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def with_tests(paths: Sequence[str], file: str, use: Callable[["Runs"], None]) -> None:
    """Collect the tests once, record what they execute of a source file, and call ``use`` with them.

    Prints nothing. Raises UnusableError if the tests fail without a change.
    """
    _silence()
    # One after another, the forks make it their directory for temporary files.
    with scratch("mutants-") as home:
        plugin = _Plugin(file, home, use)
        status = pytest.main([*_OPTIONS, f"--basetemp={home}/t", *paths], plugins=[plugin])
    if plugin.error is not None:
        raise plugin.error
    if status != pytest.ExitCode.OK:
        raise UnusableError(f"its tests cannot be collected: {status!r}")


class Runs:
    """The collected tests, and the record of a run without a change."""

    def __init__(self, session: pytest.Session, file: str, home: Path) -> None:
        """``home``: a directory for the files that programs started by tests read and write."""
        self._session = session
        self._home = home
        self._items = list(session.items)
        self._functions = _functions_of(file)
        gc.freeze()  # a collection in a fork need not copy what all share
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_SITE, os.environ.get("PYTHONPATH"))))
        os.environ[f"{_VARIABLE}FILE"] = file
        os.environ[f"{_VARIABLE}MODULE"] = _module_name(file)
        self.record = self._baseline(file)

    def choose(self, original: CodeType, changed: CodeType) -> list[int]:
        """The tests that execute a function that differs between two versions of the module, the fastest first."""
        return self.record.choose(differing(original, changed))

    def pass_with(self, changed: CodeType, tests: Sequence[int]) -> bool:
        """Whether these tests pass with the changed code of the module."""

        code = self._home / "code"
        code.write_bytes(marshal.dumps(changed))

        def child() -> bool:
            os.environ[f"{_VARIABLE}CODE"] = str(code)
            install(changed, self._functions)
            return self._run(tests)

        return _fork(child, _SPARE_SECONDS + 3 * sum(self.record.seconds[test] for test in tests)) == 0

    def _run(self, tests: Sequence[int]) -> bool:
        items = [self._items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.shouldfail or self._session.shouldstop:
                return False
        return self._session.testsfailed == 0

    def _baseline(self, file: str) -> Record:
        path = self._home / "notes"
        with path.open("ab+") as notes:
            recorder = _Recorder(file, notes.fileno())
            self._session.config.pluginmanager.register(recorder)

            def child() -> bool:
                os.environ[f"{_VARIABLE}NOTES"] = str(path)
                recorder.start({item.nodeid: place for place, item in enumerate(self._items)})
                return self._run(range(len(self._items)))

            status = _fork(child, _BASELINE_SECONDS)
            self._session.config.pluginmanager.unregister(recorder)
            notes.seek(0)
            rows = [line.decode().rstrip("\n").split("\t") for line in notes]
        record = Record()
        failed = []
        for test, what, value in rows:
            if what == _SECONDS:
                record.seconds[int(test)] = float(value)
            elif what == _FAILED:
                failed.append(f"{self._items[int(test)].nodeid}: {value}")
            else:
                record.executed.setdefault((what, int(value)), set()).add(int(test))
        if status != 0:
            raise UnusableError(f"its tests fail without a change: {'; '.join(failed) or f'status {status}'}")
        return record


class _Plugin:
    """Takes the place of pytest's loop over the tests."""

    def __init__(self, file: str, home: Path, use: Callable[[Runs], None]) -> None:
        self._file = file
        self._home = home
        self._use = use
        self.error: Exception | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            self._use(Runs(session, self._file, self._home))
        except Exception as error:
            self.error = error
        return True


class _Recorder:
    """Writes a row to a file, which forks share, for each function of the module that a test executes first."""

    def __init__(self, file: str, notes: int) -> None:
        self._file = file
        self._notes = notes
        self._test = 0
        self._places: dict[str, int] = {}
        self._seen: set[tuple[int, CodeType]] = set()

    def start(self, places: dict[str, int]) -> None:
        """Record from now on, in all threads that start from now on."""
        self._places = places
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def stop(self) -> None:
        """Record no more."""
        sys.settrace(None)
        threading.settrace(None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test = self._places[item.nodeid]
        os.environ[f"{_VARIABLE}TEST"] = str(self._test)
        begun = time.monotonic()
        result = yield
        self._note(_SECONDS, f"{time.monotonic() - begun:.6f}")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note(_FAILED, (report.longreprtext.splitlines() or [""])[-1].replace("\t", " "))

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename == self._file and (self._test, code) not in self._seen:
            self._seen.add((self._test, code))
            self._note(code.co_qualname, str(code.co_firstlineno))

    def _note(self, what: str, value: str) -> None:
        with suppress(OSError):  # of a process that has closed all descriptors
            os.write(self._notes, f"{self._test}\t{what}\t{value}\n".encode())


def _fork(child: Callable[[], bool], limit: float) -> int:
    """Call a function in a fork; returns 0 if it returned True, and another status after a failure or the time limit.

    Raises RuntimeError if the function failed before it ran a test.
    """
    pid = os.fork()
    if pid == 0:
        status = _BROKEN
        try:
            os.setpgid(0, 0)
            status = 0 if child() else 1
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
            status = 1  # by the changed code
        finally:
            os._exit(status)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done and (ended := os.waitstatus_to_exitcode(status)) == _BROKEN:
            raise RuntimeError("the mutant could not be put in place")
        if done:
            return ended
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL


def _module_name(file: str) -> str:
    """The name by which programs import a source file: its path from the highest directory that is a package."""
    path = Path(file)
    parts = [path.stem]
    while (path := path.parent).joinpath("__init__.py").exists():
        parts.insert(0, path.name)
    return ".".join(parts)


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _functions_of(file: str) -> list[FunctionType]:
    return [each for each in gc.get_objects() if isinstance(each, FunctionType) and each.__code__.co_filename == file]


def install(module: CodeType, functions: Sequence[FunctionType]) -> None:
    """Replace the code of each of the module's functions by its code in the changed module.

    ValueError: a function has other variables of its surroundings than before.
    """
    changed = {key: found[0] for key, found in codes(module).items()}
    for function in functions:
        code = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is not None:
            function.__code__ = code


def differing(original: CodeType, changed: CodeType) -> set[Function]:
    """The functions of a module whose own instructions differ, without the functions within them."""
    ours, theirs = (
        {key: [_own(code) for code in found] for key, found in codes(each).items()} for each in (original, changed)
    )
    return {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}


def _own(code: CodeType) -> tuple[object, ...]:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable


def codes(code: CodeType) -> dict[Function, list[CodeType]]:
    """All code objects within a code object, by name and line: several if a line has more than one comprehension."""
    found: dict[Function, list[CodeType]] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.setdefault((constant.co_qualname, constant.co_firstlineno), []).append(constant)
            for key, inner in codes(constant).items():
                found.setdefault(key, []).extend(inner)
    return found
