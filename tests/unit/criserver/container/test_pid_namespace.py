"""The PID namespace of another process: a container is not started if that process has ended, as its PID may be reused.

The runtime of these tests opens no namespace; what it would open is in the bundle.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.criserver.container import Container
from pykubelet.criserver.processes import reference
from pykubelet.criserver.types import ContainerPhase, ProcessRef
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in

_SHARED = pb.NamespaceOption(pid=pb.POD)


@pytest.fixture
def infra() -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(["sleep", "600"])
    yield process
    _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _ref(process: "subprocess.Popen[bytes]") -> ProcessRef:
    found = reference(process.pid)
    assert found is not None
    return found


def _target(container: Container) -> pb.NamespaceOption:
    return pb.NamespaceOption(pid=pb.TARGET, target_id=container.id)


async def _start(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.starter.start(container.id)


async def _refused(rig: Rig, container: Container, ran: Path, why: str) -> None:
    """Check that it cannot be started, for this reason, that its program has not run, and that no process is left."""
    await rig.launched(container)
    with pytest.raises(Permanent, match=re.escape(why)):
        await _start(rig, container)
    record = container.record
    assert (record.phase, record.reason, record.exit_code) == (ContainerPhase.EXITED, "StartError", 128)
    assert why in record.message
    assert not ran.exists(), "its program has run"
    bundle = rig.deps.directories.bundle(container.id)
    assert not (bundle / "pid").exists() and not (bundle / "conmon.pid").exists(), "its launch was not undone"
    await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_start_after_the_end_of_the_infra_process_fails(tmp_path: Path, infra: "subprocess.Popen[bytes]") -> None:
    ran = tmp_path / "ran"
    async with rig_in(tmp_path) as rig:
        rig.sandbox.infra = _ref(infra)
        container = await rig.create("touch", str(ran), namespaces=_SHARED)
        _end(infra)
        await _refused(rig, container, ran, f"the infra process of sandbox s1 (PID {infra.pid}) has ended")


async def test_start_with_a_reused_pid_of_the_infra_process_fails(
    tmp_path: Path, infra: "subprocess.Popen[bytes]"
) -> None:
    """The PID in the bundle is that of a process which started later than the sandbox's."""
    ran = tmp_path / "ran"
    async with rig_in(tmp_path) as rig:
        later = _ref(infra)
        rig.sandbox.infra = replace(later, started=later.started - 1)
        container = await rig.create("touch", str(ran), namespaces=_SHARED)
        await _refused(rig, container, ran, f"the infra process of sandbox s1 (PID {infra.pid}) has ended")


async def test_start_after_the_end_of_the_target_container_fails(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    async with rig_in(tmp_path) as rig:
        target = await rig.create("sleep", "600")
        await _start(rig, target)
        container = await rig.create("touch", str(ran), attempt=1, namespaces=_target(target))
        await rig.containers.lifecycle.stopper.stop(target.id, 0)
        process = target.record.process
        assert process is not None
        why = f"the first process of container {target.id} (PID {process.pid}) has ended"
        await _refused(rig, container, ran, why)


async def test_start_in_the_next_server_after_the_end_of_the_infra_process_fails(
    tmp_path: Path, infra: "subprocess.Popen[bytes]"
) -> None:
    """The next server knows which process had the PID when the container was created."""
    ran = tmp_path / "ran"
    async with rig_in(tmp_path) as rig:
        rig.sandbox.infra = _ref(infra)
        first = await rig.create("touch", str(ran), namespaces=_SHARED)
        await rig.launched(first)
    _end(infra)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        container = rig.containers.table.get(first.id)
        with pytest.raises(Permanent, match=f"PID {infra.pid}\\) has ended"):
            await _start(rig, container)
        assert not ran.exists()
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_containers_join_the_pid_namespaces_of_running_processes(
    tmp_path: Path, infra: "subprocess.Popen[bytes]"
) -> None:
    async with rig_in(tmp_path) as rig:
        rig.sandbox.infra = _ref(infra)
        shared = await rig.create("sleep", "600", namespaces=_SHARED)
        await _start(rig, shared)
        own = await rig.create("sleep", "600", attempt=1)
        await _start(rig, own)
        debug = await rig.create("sleep", "600", attempt=2, namespaces=_target(own))
        await _start(rig, debug)
        assert shared.running and own.running and debug.running
        assert own.record.process is not None
        assert _joined(rig, shared) == f"/proc/{infra.pid}/ns/pid"
        assert _joined(rig, own) is None
        assert _joined(rig, debug) == f"/proc/{own.record.process.pid}/ns/pid"
        await rig.containers.of_sandbox.remove_all(SANDBOX)


def _joined(rig: Rig, container: Container) -> str | None:
    spec = json.loads((rig.deps.directories.bundle(container.id) / "config.json").read_bytes())
    (found,) = (each.get("path") for each in spec["linux"]["namespaces"] if each["type"] == "pid")
    assert found is None or isinstance(found, str)
    return found
