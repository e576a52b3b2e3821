"""Features of the runtime server that use parts of the machine: CDI devices, the infra process."""

import json
import os
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriError
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.wait import until_answer
from tests.contract.cri.rig import STUBBORN, Program, Runtime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_DEVICE = "test.example/thing=one"
_SEEN = "echo $THING $KIND; stat -c '%t:%T %a %u' /dev/thing; cat /thing/word; touch /thing/x || id -G"
_STATES = ["ps", "-o", "pid,stat,args"]


@pytest.fixture
def cdi(daemon: PrivateRuntime) -> Path:
    """The server's directory of CDI files."""
    directory = daemon.home / "cdi"
    directory.mkdir(exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    return directory


def _document(directory: Path) -> dict[str, object]:
    """The CDI file describes a device (/dev/full), variables, a mount, a group, and a hook that records its input."""
    hook = {
        "hookName": "createRuntime",
        "path": "/bin/sh",
        "args": ["sh", "-c", f'cat > "{directory}/state"; echo "$HOOKED" > "{directory}/hooked"'],
        "env": ["HOOKED=yes", f"PATH={os.environ['PATH']}"],
    }
    edits = {
        "env": ["THING=1"],
        "deviceNodes": [{"path": "/dev/thing", "hostPath": "/dev/full", "fileMode": 0o640, "uid": 12}],
        "mounts": [{"hostPath": str(directory), "containerPath": "/thing", "options": ["ro", "bind"]}],
        "hooks": [hook],
        "additionalGids": [4711],
    }
    return {
        "cdiVersion": "0.6.0",
        "kind": "test.example/thing",
        "containerEdits": {"env": ["KIND=all"]},
        "devices": [{"name": "one", "containerEdits": edits}],
    }


async def _create(runtime: Runtime, *devices: str, command: str = "", by_annotation: bool = False) -> ContainerID:
    program = Program("asker", ("sh", "-c", command), Script()) if command else STUBBORN
    config = runtime.container_config(program)
    for device in devices:
        if by_annotation:
            config.annotations["cdi.k8s.io/plugin_0"] = device
        else:
            config.CDI_devices.add(name=device)
    return await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())


@pytest.mark.parametrize("by_annotation", [False, True])
async def test_cdi_device_changes_the_container_as_its_file_says(
    runtime: Runtime, cdi: Path, tmp_path: Path, by_annotation: bool
) -> None:
    (tmp_path / "word").write_text("from the node\n")
    (cdi / "thing.json").write_text(json.dumps(_document(tmp_path)))
    (cdi / "broken.yaml").write_text("cdiVersion: [")
    command = f"({_SEEN}; echo x > /dev/thing) 2>&1"
    container = await _create(runtime, _DEVICE, command=command, by_annotation=by_annotation)
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    lines = [line.split(" ", 3)[3] for line in Path(status.log_path).read_text().splitlines()]
    assert lines[:3] == ["1 all", "1:7 640 12", "from the node"], lines
    assert "Read-only" in lines[3] and "4711" in lines[4].split()
    assert "No space left" in lines[5]
    assert json.loads((tmp_path / "state").read_text())["id"] == container
    assert (tmp_path / "hooked").read_text() == "yes\n"


@pytest.mark.parametrize(
    ("change", "device", "words"),
    [
        ({}, "test.example/thing=two", r"test\.example/thing=two is not defined"),
        ({}, "nonsense", "must be written as vendor/class=name"),
        ({"devices": "many"}, _DEVICE, r"thing\.json: Expected `array`"),
        ({"containerEdits": {"hooks": [{"hookName": "never", "path": "/x"}]}}, _DEVICE, "unknown hooks: never"),
        ({"containerEdits": {"mounts": [{"hostPath": "/", "containerPath": "x"}]}}, _DEVICE, "must be absolute"),
        (
            {"containerEdits": {"deviceNodes": [{"path": "/dev/none-such"}]}},
            _DEVICE,
            "device node /dev/none-such does not exist",
        ),
    ],
)
async def test_cdi_devices_that_are_refused(
    runtime: Runtime, cdi: Path, tmp_path: Path, change: dict[str, object], device: str, words: str
) -> None:
    """Refused before anything is created, with an error that names the device or the file, and the cause."""
    (cdi / "thing.json").write_text(json.dumps({**_document(tmp_path), **change}))
    with pytest.raises(CriError, match=words):
        await _create(runtime, device)
    assert await runtime.client.list_containers(pb.ContainerFilter(pod_sandbox_id=runtime.sandboxes[0])) == []


async def test_failing_hook_of_cdi_fails_the_start(runtime: Runtime, cdi: Path, tmp_path: Path) -> None:
    change = {"hooks": [{"hookName": "createRuntime", "path": "/bin/false"}]}
    (cdi / "thing.json").write_text(json.dumps({**_document(tmp_path), "containerEdits": change}))
    container = await _create(runtime, _DEVICE)
    with pytest.raises(CriError, match="hook"):
        await runtime.client.start_container(container)
    status = await runtime.status(container)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 128, "StartError")


async def test_orphans_are_reaped_in_a_shared_pid_namespace(runtime: Runtime) -> None:
    """The sandbox's first process adopts orphaned processes and reaps them."""
    pod = runtime.pod_config()
    pod.linux.security_context.namespace_options.pid = pb.POD
    orphans = "for n in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.1 &); done; exec sleep 3600"
    config = runtime.container_config(Program("parent", ("sh", "-c", orphans), Script()))
    config.linux.security_context.namespace_options.pid = pb.POD
    container = await runtime.client.create_container(await runtime.sandbox(pod), config, pod)
    await runtime.client.start_container(container)

    last: list[str] = []

    async def all_reaped() -> bool:
        last[:] = (await runtime.client.exec_sync(container, _STATES, 20)).stdout.decode().splitlines()[1:]
        # A process that has just ended is a zombie until the first process gets its turn.
        return not [row for row in last if "sleep 0.1" in row or row.split()[1].startswith("Z")]

    await until_answer(all_reaped)
    assert len(last) >= 2 and any("sleep 3600" in row for row in last), last


async def test_container_shares_the_pid_namespace_of_a_target_only_while_that_runs(runtime: Runtime) -> None:
    """As a kubelet requests an ephemeral container with ``targetContainerName``."""
    sandbox, pod = await runtime.sandbox(), runtime.pod_config()
    target = await runtime.client.create_container(sandbox, runtime.container_config(STUBBORN), pod)
    await runtime.client.start_container(target)

    async def create(name: str) -> ContainerID:
        config = runtime.container_config(Program(name, ("sleep", "3600"), Script()))
        options = pb.NamespaceOption(pid=pb.TARGET, target_id=target)
        config.linux.security_context.namespace_options.CopyFrom(options)
        return await runtime.client.create_container(sandbox, config, pod)

    debugger, late = await create("debugger"), await create("late")
    await runtime.client.start_container(debugger)
    links = ["readlink", "/proc/self/ns/pid"]
    seen = [(await runtime.client.exec_sync(each, links, 20)).stdout for each in (target, debugger)]
    assert seen[0] == seen[1] != os.fsencode(Path("/proc/self/ns/pid").readlink()) + b"\n"
    await runtime.client.stop_container(target, 0)
    with pytest.raises(CriError):
        await runtime.client.start_container(late)
    status = await runtime.status(late)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 128, "StartError")
