"""The driver of this machine on the real kernel: limits are in force, and nothing is left behind."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.units import MIB, Bytes
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver, CgroupResources, Layout, Mode, detect, open_driver, problem
from pykubelet.testing.agent import wait_for

pytestmark = pytest.mark.root


@pytest.fixture
def layout() -> Layout:
    layout = detect()
    if why_not := problem(layout):
        pytest.skip(why_not)
    return layout


@pytest.fixture
def driver(layout: Layout) -> CgroupDriver:
    return open_driver(layout)


@pytest.fixture
def parent(driver: CgroupDriver) -> Iterator[str]:
    path = f"/pktest-{secrets.token_hex(4)}"
    yield path
    driver.delete(path)


def directories(layout: Layout, path: str) -> list[Path]:
    """Directories of the cgroup, in every hierarchy that has it."""
    if layout.mode is Mode.V2 and layout.unified:
        return [layout.unified / path.lstrip("/")]
    mounts = dict.fromkeys(layout.controllers.values())
    return [mount / path.lstrip("/") for mount in mounts if (mount / path.lstrip("/")).is_dir()]


def setting(layout: Layout, path: str, v1: tuple[str, str], v2: str) -> str:
    """One control file, by its name in the version at hand."""
    if layout.mode is Mode.V2 and layout.unified:
        return (layout.unified / path.lstrip("/") / v2).read_text().strip()
    controller, name = v1
    return (layout.controllers[controller] / path.lstrip("/") / name).read_text().strip()


def test_limits_are_read_as_they_were_written(driver: CgroupDriver, parent: str) -> None:
    driver.create(parent, CgroupResources())
    free = driver.limits(parent)
    assert free.cpu_quota_us in (UNLIMITED, None) and free.memory_max in (UNLIMITED, None)
    driver.update(parent, CgroupResources(cpu_quota_us=30_000, cpu_period_us=100_000, memory_max=Bytes(64 * MIB)))
    found = driver.limits(parent)
    assert found.memory_max in (64 * MIB, None)
    assert (found.cpu_quota_us, found.cpu_period_us) in ((30_000, 100_000), (None, None))
    with pytest.raises(NotFound):
        driver.limits(f"{parent}/none")


def join(layout: Layout, path: str, argv: list[str]) -> "subprocess.Popen[bytes]":
    """Start a program that is in the cgroup before it does anything."""
    procs = [str(directory / "cgroup.procs") for directory in directories(layout, path)]
    joining = 'for p in "$@"; do case $p in --) shift; break;; esac; echo $$ > "$p"; shift; done'
    script = f'{joining}; echo joined; exec "$@" >/dev/null 2>&1'
    command = ["/bin/sh", "-c", script, "sh", *procs, "--", *argv]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"joined\n"
    return process


def test_limits_reach_the_kernel(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    path = f"{parent}/burstable/pod1"
    driver.create(
        path,
        CgroupResources(
            cpu_shares=1024,
            cpu_quota_us=50_000,
            cpu_period_us=100_000,
            memory_max=Bytes(64 * MIB),
            pids_max=20,
            hugepages=(("2MB", Bytes(0)),),
        ),
    )
    assert driver.exists(path)
    assert setting(layout, path, ("memory", "memory.limit_in_bytes"), "memory.max") == str(64 * MIB)
    assert setting(layout, path, ("pids", "pids.max"), "pids.max") == "20"
    weight = "1024" if layout.version == 1 else "39"
    assert setting(layout, path, ("cpu", "cpu.shares"), "cpu.weight") == weight
    quota = "50000" if layout.version == 1 else "50000 100000"
    assert setting(layout, path, ("cpu", "cpu.cfs_quota_us"), "cpu.max") == quota
    driver.update(path, CgroupResources(cpu_quota_us=UNLIMITED, cpu_period_us=100_000, pids_max=UNLIMITED))
    assert setting(layout, path, ("pids", "pids.max"), "pids.max") == "max"
    quota = "-1" if layout.version == 1 else "max 100000"
    assert setting(layout, path, ("cpu", "cpu.cfs_quota_us"), "cpu.max") == quota


def test_a_process_can_join_and_is_counted(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources(pids_max=20))
    process = join(layout, f"{parent}/pod", ["/bin/sleep", "600"])
    assert driver.procs(parent) == {process.pid}
    stats = driver.stats(f"{parent}/pod")
    assert stats.pids == 1
    assert stats.cpu_usage_ns is not None
    assert 0 < (stats.memory_working_set or 0) <= (stats.memory_usage or 0)
    driver.delete(parent)
    assert process.wait(10) == -signal.SIGKILL
    assert directories(layout, parent) == [] or not directories(layout, parent)[0].exists()


def test_the_memory_limit_kills(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources(memory_max=Bytes(32 * MIB)))
    script = "x = bytearray(200 << 20)"
    process = join(layout, f"{parent}/pod", [sys.executable, "-c", script])
    assert process.wait(30) == -signal.SIGKILL


def test_delete_takes_what_others_made_below(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources())
    for mount in {*layout.controllers.values(), *([layout.unified] if layout.unified else [])}:
        (mount / parent.lstrip("/") / "pod/container/deep").mkdir(parents=True, exist_ok=True)
    child = f"{parent}/pod/container/deep"
    processes = [join(layout, child, ["/bin/sh", "-c", "trap '' TERM; exec sleep 600"]) for _ in range(3)]
    driver.delete(f"{parent}/pod")
    assert [process.wait(10) for process in processes] == [-signal.SIGKILL] * 3
    assert driver.children(parent) == frozenset()
    assert not driver.exists(f"{parent}/pod")
    driver.delete(f"{parent}/pod")


def test_fork_bomb_is_deleted(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    """It forks as fast as version 1, which cannot kill a cgroup at once, kills its processes."""
    driver.create(f"{parent}/pod", CgroupResources(pids_max=300))
    driver.create(f"{parent}/pod/container", CgroupResources())
    bomb = join(
        layout,
        f"{parent}/pod/container",
        [sys.executable, "-S", "-c", "import os\nwhile 1:\n try: os.fork()\n except OSError: pass"],
    )
    wait_for(lambda: driver.stats(f"{parent}/pod").pids == 300, 30, lambda: "the processes are too few")
    driver.delete(f"{parent}/pod/container")
    assert bomb.wait(10) == -signal.SIGKILL
    assert not driver.exists(f"{parent}/pod/container")


def test_cgroup_whose_deletion_was_given_up_is_used_again(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources())
    limit = next(path for each in directories(layout, f"{parent}/pod") if (path := each / "pids.max").exists())
    limit.write_text("0")
    driver.create(f"{parent}/pod", CgroupResources())
    assert limit.read_text() == "max\n"


@pytest.mark.parametrize("way", ["deleted", "killed"])
def test_a_frozen_process_dies_too(driver: CgroupDriver, layout: Layout, parent: str, way: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources())
    if layout.version == 1:
        if "freezer" not in layout.controllers:
            pytest.skip("no freezer controller is mounted")
        state, frozen = layout.controllers["freezer"] / parent.lstrip("/") / "pod" / "freezer.state", "FROZEN"
        state.parent.mkdir(parents=True, exist_ok=True)
    else:
        state, frozen = directories(layout, f"{parent}/pod")[0] / "cgroup.freeze", "1"
    process = join(layout, f"{parent}/pod", ["/bin/sleep", "600"])
    state.write_text(frozen)
    if way == "deleted":
        driver.delete(parent)
    else:
        driver.kill(parent)
    assert process.wait(10) == -signal.SIGKILL


def test_a_process_that_others_freeze_again_and_again_dies_with_them(
    driver: CgroupDriver, layout: Layout, parent: str
) -> None:
    """As a privileged container may do to its first process: it froze again before it could end."""
    if "freezer" not in layout.controllers:
        pytest.skip("no freezer controller is mounted")
    driver.create(f"{parent}/pod/frozen", CgroupResources())
    state = layout.controllers["freezer"] / parent.lstrip("/") / "pod" / "frozen" / "freezer.state"
    state.parent.mkdir(parents=True, exist_ok=True)
    frozen = join(layout, f"{parent}/pod/frozen", ["/bin/sleep", "600"])
    freeze = ["/bin/sh", "-c", f"while :; do echo FROZEN > {state}; done"]
    others = [join(layout, f"{parent}/pod", freeze) for _ in range(2)]
    wait_for(lambda: "FROZEN" in state.read_text(), 10, lambda: "it is not frozen")
    driver.kill(f"{parent}/pod")
    assert [each.wait(10) for each in (frozen, *others)] == [-signal.SIGKILL] * 3


def test_new_cpusets_take_processes(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/a/b", CgroupResources(cpuset_cpus="0"))
    process = join(layout, f"{parent}/a/b", [sys.executable, "-c", "import os; os._exit(len(os.sched_getaffinity(0)))"])
    assert process.wait(20) == 1


def test_we_do_not_kill_ourselves(driver: CgroupDriver, layout: Layout, parent: str) -> None:
    driver.create(f"{parent}/pod", CgroupResources())
    directory = next(each for each in directories(layout, f"{parent}/pod") if (each / "pids.max").exists())
    origin = _own_cgroup(directory, layout, parent)
    (directory / "cgroup.procs").write_text(str(os.getpid()))
    try:
        assert os.getpid() in driver.procs(parent)
    finally:
        (origin / "cgroup.procs").write_text(str(os.getpid()))
    driver.delete(parent)


def _own_cgroup(directory: Path, layout: Layout, parent: str) -> Path:
    mount = Path(str(directory).split(parent, 1)[0])
    controller = next((name for name, path in layout.controllers.items() if path == mount), "")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return mount / path.lstrip("/")
    raise AssertionError(f"we are in no cgroup of {mount}")


def test_failed_cgroup_calls_raise_errors_of_their_kind(driver: CgroupDriver, parent: str) -> None:
    driver.create(parent, CgroupResources())
    with pytest.raises(Invalid):
        driver.update(parent, CgroupResources(cpuset_cpus="not a list"))
    with pytest.raises(NotFound):
        driver.update(f"{parent}/missing", CgroupResources(pids_max=1))
    with pytest.raises(NotFound):
        driver.stats(f"{parent}/missing")
    with pytest.raises(Invalid):
        driver.delete("/")
