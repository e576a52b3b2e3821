"""Contract of a container runtime: the behavior that the agent relies on, tested on the fake and on a real runtime.

The fake is tested over gRPC in two variants, one with CRI events and one like containerd 1.6. The real runtime is that
of `PYKUBELET_TEST_CRI_ENDPOINT`; `PYKUBELET_TEST_IMAGE` names an image on it that holds busybox.
"""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.fake_cri import ExecScript, FakeCri, FakeCriOptions, serve
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until
from tests.contract.cri.rig import CGROUP, ENDPOINT, HAVE_REAL, IMAGE, PROGRAMS, REAL, SHOUT, SLEEP, Runtime

_CGROUP_SECONDS = 5.0
"""Seconds that killed processes may take to leave their cgroup."""


def cgroups_named(name: str) -> list[Path]:
    """Directories of the cgroup, in every hierarchy that has it."""
    top = Path("/sys/fs/cgroup")
    return [path for path in (top / name, *(mount / name for mount in top.iterdir())) if path.is_dir()]


def _removed() -> bool:
    remove_cgroups(CGROUP)
    return not cgroups_named(CGROUP)


@pytest.fixture(params=["fake", "fake-containerd", *REAL])
async def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "real":
        yield os.environ[ENDPOINT]
        # Runtimes create the parent cgroup but do not remove it.
        await until(_removed, _CGROUP_SECONDS)
        return
    options = FakeCriOptions(
        supports_events=request.param == "fake",
        containerd_events=request.param == "fake-containerd",
        exit_lag=0.05 if request.param == "fake-containerd" else 0.0,
        unsupported=frozenset() if request.param == "fake" else frozenset({"RuntimeConfig", "StreamContainers"}),
        write_logs=True,
    )
    async with FakeCri(SystemClock(), options) as cri, serve(cri, tmp_path / "cri.sock") as endpoint:
        cri.add_image(os.environ.get(IMAGE, "busybox:1"))
        for program in PROGRAMS:
            cri.script(program.script, container=program.name)
        cri.script_exec(ExecScript(5, b"out\n", b"err\n"), command=SHOUT)
        cri.script_exec(ExecScript(duration=60), command=SLEEP)
        yield endpoint


@pytest.fixture
async def runtime(endpoint: str, tmp_path: Path) -> AsyncIterator[Runtime]:
    logs = tmp_path / f"logs-{time.time_ns()}"
    logs.mkdir()
    async with CriClient.connect(endpoint) as client:
        runtime = Runtime(client, os.environ.get(IMAGE, "busybox:1"), logs)
        try:
            yield runtime
        finally:
            await runtime.clean()


if not HAVE_REAL:
    # They check the actual environment of containers, which a fake does not have.
    collect_ignore = ["test_confinement.py", "test_features.py", "test_mounts.py", "test_output.py"]
