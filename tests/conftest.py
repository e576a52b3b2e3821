"""Shared fixtures and hooks: skips for missing programs, leak checks, and the private runtime of real-node tests.

With ``--clock-jumps`` the wall clock of the agents and runtime servers that tests start jumps every few seconds: an
hour fast, an hour slow, then correct. All tests must still pass, for example:
``pytest tests/integration/test_restarts.py --runtime=criserver --clock-jumps``. The clocks of the tests, of containerd
and of a runtime server that the agent starts by itself do not change.

With ``--late-io`` the event loops of the tests learn late, and in another order, of what is ready: a test that fails
now and then on a busy machine mostly does so then. ``--seed=N`` makes a run repeatable as far as threads allow.
"""

import asyncio
import gc
import inspect
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pykubelet.base.daemon.run_until_signal import ignore_here_only
from pykubelet.linux.filesystems.mountinfo import mounts_below
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.isolation import Isolation, claim
from pykubelet.testing.late_io import late_io
from pykubelet.testing.leakcheck import Kind, Scope, snapshot
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.shifted import jumping
from tests.manifests import BUSYBOX, Apply, Json

# Tests may be run in the background, where SIGINT is ignored; the programs that they start must not ignore it.
ignore_here_only()

# The machine is shared: the duration of one example is meaningless.
_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
if "PYKUBELET_DERANDOMIZE" in os.environ:  # `make mutants`: the same examples each time
    _PATIENT |= {"derandomize": True, "database": None}
settings.register_profile("pykubelet", **_PATIENT)
# `make fuzz` sets a larger budget, which applies to tests without a budget of their own.
settings.register_profile("fuzz", **_PATIENT, max_examples=int(os.environ.get("PYKUBELET_FUZZ_EXAMPLES", "100")))
settings.load_profile("fuzz" if "PYKUBELET_FUZZ_EXAMPLES" in os.environ else "pykubelet")

_PROGRAMS = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "ip": "iproute2"}
_FILES = {"/usr/lib/cni/bridge": "containernetworking-plugins"}
_RUNTIMES: dict[str, Callable[[Isolation], PrivateRuntime]] = {
    "criserver": Isolation.criserver,
    "containerd": Isolation.containerd,
}
_GRACE_SECONDS = 2.0
_DESCRIPTOR_SECONDS = 20.0
_JUMP, _JUMP_EVERY = 3600.0, 3.0
_OF_GRPC = ("anon_inode:[eventfd]", "anon_inode:[eventpoll]")
_descriptors = pytest.StashKey[Counter[str]]()


def missing_for_root() -> str:
    """The reason why tests marked `root` cannot run; empty if they can."""
    return "" if os.geteuid() == 0 else "needs root: run the tests with sudo"


def missing_for_runtime(chosen: str = "both") -> str:
    """The reason why tests marked `runtime` cannot run on the chosen runtime; empty if they can."""
    needed = [each for each in _PROGRAMS.items() if chosen != "criserver" or each[1] != "containerd"]
    packages = [package for program, package in needed if shutil.which(program) is None]
    packages += [package for file, package in _FILES.items() if not Path(file).exists()]
    if not any(Path(directory, "busybox").is_file() for directory in ("/bin", "/usr/bin")):
        packages.append("busybox-static")
    if packages:
        return f"needs a container runtime: apt-get install {' '.join(dict.fromkeys(packages))}"
    return missing_for_root()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that cannot run on this machine, with the reason."""
    reasons = {"root": missing_for_root(), "runtime": missing_for_runtime(config.getoption("--runtime"))}
    for item in items:
        for mark, reason in reasons.items():
            if reason and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))
                break
        if item.get_closest_marker("steady_clock") and item.config.getoption("--clock-jumps"):
            item.add_marker(
                pytest.mark.skip(reason="needs a wall clock that does not jump: run it without --clock-jumps")
            )
        if PATIENCE != 1:
            given = item.get_closest_marker("timeout")
            seconds = given.args[0] if given and given.args else config.getini("timeout")
            item.add_marker(pytest.mark.timeout(float(seconds) * PATIENCE), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skips by reason, so that a run without the runtime is not mistaken for a complete one."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)).removeprefix("Skipped: ")
        for report in skipped
    )
    terminalreporter.section("skips")
    terminalreporter.write_line(f"{len(skipped)} tests were skipped" if skipped else "no test was skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"  {count} × {reason}")


@pytest.fixture(autouse=True)
def _look_for_leaks(request: pytest.FixtureRequest) -> None:
    """Set up before all other fixtures of a test, so that it is torn down after them."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_no_leaked_tasks")
    if request.node.get_closest_marker("serves") is None:
        request.node.stash[_descriptors] = _open_descriptors()


@pytest.fixture
async def _no_leaked_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    this = asyncio.current_task()
    left = {task for task in asyncio.all_tasks() - before if task is not this}
    if left:
        _, left = await asyncio.wait(left, timeout=_GRACE_SECONDS)
    assert not left, f"the test left tasks behind: {sorted(task.get_name() for task in left)}"


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that leaves descriptors open, or mounts in its directory, after the teardown of its fixtures.

    Runs within pytest's capturing.
    """
    result = yield
    _fail_on_mounts(getattr(item, "funcargs", {}).get("tmp_path"))
    before = item.stash.get(_descriptors, None)
    if before is not None:
        leaked = _leaked_descriptors(before)
        if leaked:
            pytest.fail(f"the test left descriptors open: {dict(leaked)}")
    return result


def _fail_on_mounts(directory: Path | None) -> None:
    """Fail if mounts are left, after unmounting them: pytest could not remove the directory in later runs."""
    left = [mount.path for mount in mounts_below(str(directory))] if directory is not None else []
    if left:
        unmount_all_under(str(directory), lazy=True)
        pytest.fail(f"the test left mounts: {left}")


def _leaked_descriptors(before: Counter[str]) -> Counter[str]:
    """Descriptors that are open in addition to those before, once they had time to be closed.

    gRPC closes the socket of a closed channel in a thread of its own. On a machine that other suites keep busy this
    has taken longer than two seconds. Collections hold the interpreter lock, so they get rarer.
    """
    pause, deadline = 0.02, time.monotonic() + _DESCRIPTOR_SECONDS
    while leaked := _open_descriptors() - before:
        gc.collect()
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
    return leaked


def _open_descriptors() -> Counter[str]:
    found = snapshot(Scope(descriptors=True)).found[Kind.DESCRIPTOR]
    # gRPC keeps an eventfd for each event loop that it was used in (the agent has a single one), and closes the epoll
    # set of its engine at any time. An event loop that a test leaves open is also visible by its sockets.
    return Counter({name: count for name, count in found.items() if name not in _OF_GRPC})


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run the tests with late event loops if that is asked for."""
    with late_io(_seed(session.config)) if session.config.getoption("--late-io") else nullcontext():
        return (yield)


@pytest.fixture(scope="session")
def isolation(request: pytest.FixtureRequest) -> Iterator[Isolation]:
    """Names, directory and addresses of this session; leftovers of sessions that were killed are removed first."""
    mine = claim()
    jumps = request.config.getoption("--clock-jumps")
    try:
        with jumping(mine.home / "shift", _JUMP, _JUMP_EVERY) if jumps else nullcontext():
            yield mine
    finally:
        mine.destroy()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select the container runtimes of tests with a real runtime."""
    parser.addoption("--runtime", default="both", choices=[*_RUNTIMES, "both"], help="default: both, one after another")
    parser.addoption("--kills", type=int, default=2, help="steps at which the tests of sudden ends kill, per test")
    parser.addoption("--disconnects", type=int, default=200, help="clients of streams that vanish, in their test")
    parser.addoption("--clock-jumps", action="store_true", help="let the daemons' wall clock jump by an hour")
    parser.addoption("--late-io", action="store_true", help="let event loops learn late of what is ready")
    parser.addoption("--seed", type=int, help="the chance of tests that draw lots; a failing one tells which it had")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat the tests with a real runtime on each selected one."""
    if "daemon" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--runtime")
        only = {name for mark in metafunc.definition.iter_markers("only_on") for name in mark.args}
        names = [name for name in _RUNTIMES if chosen in (name, "both") and (name in only or not only)]
        params = [pytest.param(name, marks=pytest.mark.each_runtime) for name in names]
        metafunc.parametrize("daemon", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """Maximum number of kills per test of recovery; if there are more steps, they are chosen at random."""
    return int(request.config.getoption("--kills"))


@pytest.fixture(scope="session")
def disconnects(request: pytest.FixtureRequest) -> int:
    """Number of stream clients that disconnect suddenly."""
    return int(request.config.getoption("--disconnects"))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of randomized tests."""
    return _seed(request.config)


def _seed(config: pytest.Config) -> int:
    given = config.getoption("--seed")
    return random.randrange(1 << 32) if given is None else int(given)


@pytest.fixture(scope="session")
def daemon(request: pytest.FixtureRequest, isolation: Isolation) -> Iterator[PrivateRuntime]:
    """The session's own container runtime, with a busybox image."""
    made = _RUNTIMES[request.param](isolation)
    made.start()
    made.load(ImageSpec(BUSYBOX))
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def containerd(daemon: PrivateRuntime) -> PrivateRuntime:
    """The same runtime by its former name."""
    return daemon


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    """KubeletConfiguration fields of the module's agent; modules override it."""
    return {}


@pytest.fixture(scope="module")
def agent(
    request: pytest.FixtureRequest,
    isolation: Isolation,
    daemon: PrivateRuntime,
    agent_config: dict[str, object],
) -> Iterator[AgentProcess]:
    """The module's agent; at the end its pods are removed, and it is an error if anything of them is left."""
    home = isolation.home / request.module.__name__.rpartition(".")[2].removeprefix("test_")[:12]
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, config=agent_config)
    agent.start()
    traces = NodeTraces(agent, daemon)
    try:
        yield agent
        if agent.process is None:
            agent.start()
        agent.remove_all_pods()
        traces.assert_none_left()
        assert agent.stop() == 0, f"the agent did not stop cleanly:\n{agent.log_tail()}"
    finally:
        agent.destroy()


@pytest.fixture
def apply(agent: AgentProcess) -> Iterator[Apply]:
    """Write manifests by file name; they are removed after the test, without waiting until the pods are gone.

    A pod that an earlier test had by the same name is waited for: it stays ready until its containers have ended.
    """
    written: set[Path] = set()
    mine: set[str] = set()

    def write(name: str, *documents: Json) -> None:
        names = {str(each["metadata"]["name"]) for each in documents if each.get("kind") == "Pod"}
        earlier = names & agent.used_names - mine
        if agent.process is not None and earlier:
            agent.wait_gone(*earlier, timeout=60)
        mine.update(names)
        agent.used_names.update(names)
        written.add(agent.write(f"{name}.json", *documents))

    yield write
    for path in written:
        path.unlink(missing_ok=True)
