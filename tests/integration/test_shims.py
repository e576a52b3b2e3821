"""Containers of a shim (``containerd-shim-runc-v2``): their life, and deaths of the server and of the shim.

The whole contract of CRI on a shim, and the kill suites: ``PYKUBELET_TEST_OCI=containerd-shim-runc-v2 pytest
tests/integration/test_cri_contract.py tests/faults --runtime=criserver``.
"""

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.linux import procfs
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until, until_answer
from tests.contract.cri.rig import CGROUP, FAILING, POLITE, SHOUT, Program, Runtime, connected
from tests.manifests import BUSYBOX

_PROGRAM = "containerd-shim-runc-v2"
pytestmark = [
    pytest.mark.root,
    pytest.mark.runtime,
    pytest.mark.only_on("criserver"),
    pytest.mark.skipif(shutil.which(_PROGRAM) is None, reason=f"needs {_PROGRAM}: apt-get install containerd"),
]
_COUNTING = Program("counting", ("sh", "-c", "n=0; while :; do echo $n; n=$((n+1)); sleep 0.05; done"), Script())
_GOING = Program("going", ("sh", "-c", "while ! test -e /go; do sleep 0.05; done; echo gone; exit 9"), Script())
_GREEDY = Program("greedy", ("sh", "-c", "x=x; while :; do x=$x$x; done"), Script())


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    further = {
        "default_handler": "shim",
        "handlers": {"shim": {"type": "shim", "path": "io.containerd.runc.v2"}, "runc": {"path": "runc"}},
    }
    made = PrivateCriServer(
        isolation.home / "h", f"{isolation.bridge}h", isolation.further_subnet("h"), further=further
    )
    try:
        made.write_configuration()
        made.load(ImageSpec(BUSYBOX))
        made.start()
        yield made
    finally:
        made.destroy()
        remove_cgroups(CGROUP)


@pytest.fixture
async def runtime(server: PrivateCriServer, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(server.endpoint, tmp_path) as made:
        yield made
    assert _shims(server) == [], "a shim is left"
    left = [path for path in (server.home / "run/oci/shim").iterdir() if path.name != "state"]
    assert left == [], "a task is left"


def _shims(server: PrivateCriServer) -> list[int]:
    """The shims of this server: their arguments name its socket for events."""
    events = os.fsencode(server.home / "run/shims.sock")
    return [pid for pid in procfs.pids() if events in (procfs.arguments(pid) or ())]


def _log(status: pb.ContainerStatus) -> list[str]:
    return [line.split(" ", 3)[3] for line in Path(status.log_path).read_text().splitlines()]


async def _stopped(runtime: Runtime, sandbox: SandboxID) -> bool:
    return (await runtime.client.pod_sandbox_status(sandbox)).status.state == pb.SANDBOX_NOTREADY


async def _restarted(runtime: Runtime, server: PrivateCriServer, container: ContainerID) -> pb.ContainerStatus:
    """Start the server again; return the container's status as soon as it is known."""
    server.start()

    async def known() -> pb.ContainerStatus | None:
        return await runtime.status(container)

    found = await until_answer(known)
    assert found is not None
    return found


async def test_container_of_a_shim_runs_ends_and_is_stopped(runtime: Runtime, server: PrivateCriServer) -> None:
    failing = await runtime.start(FAILING)
    ended = await runtime.ended(failing)
    assert (ended.exit_code, ended.reason, _log(ended)) == (3, "Error", ["hello"])
    polite = await runtime.create(runtime.sandboxes[0], POLITE)
    await runtime.client.start_container(polite)
    await runtime.begun(polite)
    assert len(_shims(server)) == 1, "the containers of a pod share a shim"
    done = await runtime.client.exec_sync(polite, SHOUT, 30)
    assert (done.exit_code, done.stdout, done.stderr) == (5, b"out\n", b"err\n")
    await runtime.client.stop_container(polite, 30)
    assert (await runtime.status(polite)).exit_code == 7


async def test_sigkill_of_the_server_loses_neither_output_nor_exit_code(
    runtime: Runtime, server: PrivateCriServer
) -> None:
    sandbox = await runtime.sandbox()
    counting, going = await runtime.create(sandbox, _COUNTING), await runtime.create(sandbox, _GOING)
    waiting = await runtime.create(sandbox, FAILING)
    for each in (counting, going):
        await runtime.client.start_container(each)
        await runtime.begun(each)
    state = json.loads((await runtime.client.container_status(going, verbose=True)).info["info"])
    server.signal(signal.SIGKILL)
    log = Path(server_log(runtime, _COUNTING))
    lines = log.read_text().count("\n")
    await until(lambda: log.read_text().count("\n") > lines + 2)
    Path(f"/proc/{state['pid']}/root/go").touch()
    await until(lambda: "gone" in Path(server_log(runtime, _GOING)).read_text())
    assert (await _restarted(runtime, server, counting)).state == pb.CONTAINER_RUNNING
    ended = await runtime.ended(going)
    assert (ended.exit_code, _log(ended)) == (9, ["gone"])
    assert (await runtime.status(waiting)).state == pb.CONTAINER_CREATED
    await runtime.client.start_container(waiting)
    assert _log(await runtime.ended(waiting)) == ["hello"], "it must have run once"
    await runtime.client.stop_container(counting, 0)
    counted = _log(await runtime.status(counting))
    assert counted == [str(number) for number in range(len(counted))], "output is lost"


def server_log(runtime: Runtime, program: Program) -> str:
    return str(runtime.logs / f"{program.name}-0.log")


async def test_death_of_the_shim_ends_its_pod(runtime: Runtime, server: PrivateCriServer) -> None:
    container = await runtime.start(POLITE)
    await runtime.begun(container)
    process = json.loads((await runtime.client.container_status(container, verbose=True)).info["info"])["pid"]
    (shim,) = _shims(server)
    os.kill(shim, signal.SIGKILL)
    ended = await runtime.ended(container)
    assert (ended.exit_code, ended.reason) == (137, "Error")
    await until(lambda: procfs.stat(process) is None)

    async def stopped() -> bool:
        return await _stopped(runtime, runtime.sandboxes[0])

    await until_answer(stopped)


async def test_death_of_shim_and_server_ends_the_pod_at_the_restart(runtime: Runtime, server: PrivateCriServer) -> None:
    container = await runtime.start(POLITE)
    await runtime.begun(container)
    (shim,) = _shims(server)
    server.signal(signal.SIGKILL)
    os.kill(shim, signal.SIGKILL)
    await _restarted(runtime, server, container)
    assert (await runtime.ended(container)).exit_code == 137

    async def stopped() -> bool:
        return await _stopped(runtime, runtime.sandboxes[0])

    await until_answer(stopped)


async def test_memory_limit_kills_the_container(runtime: Runtime) -> None:
    config = runtime.container_config(_GREEDY)
    config.linux.resources.memory_limit_in_bytes = 32 << 20
    config.linux.resources.memory_swap_limit_in_bytes = 32 << 20
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    ended = await runtime.ended(container)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
