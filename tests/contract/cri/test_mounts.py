"""Contract of nested mounts: propagation in both directions, recursive read-only. On real runtimes only."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriError
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.contract.cri.rig import REAL, STUBBORN, Runtime

pytestmark = [pytest.mark.parametrize("endpoint", REAL, indirect=True)]


@dataclass(frozen=True)
class SharedDirectory:
    """A directory of the node that is a shared mount, with mount points for further mounts."""

    path: Path

    @property
    def from_host(self) -> Path:
        return self.path / "from-host"

    @property
    def from_container(self) -> Path:
        return self.path / "from-container"

    def mount(self, *, shared: bool = True) -> None:
        _mount("--bind", str(self.path), str(self.path))
        _mount("--make-shared" if shared else "--make-private", str(self.path))

    def mount_inside(self) -> None:
        _mount("-t", "tmpfs", "none", str(self.from_host))
        (self.from_host / "word").write_text("new")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedDirectory]:
    made = SharedDirectory(tmp_path / "volume")
    for directory in (made.from_host, made.from_container):
        directory.mkdir(parents=True)
    yield made
    while is_mount_point(str(made.path)):
        subprocess.run(["umount", "--recursive", "--lazy", str(made.path)], check=True)


async def _start(runtime: Runtime, mount: pb.Mount) -> ContainerID:
    pod = runtime.pod_config()
    pod.linux.security_context.privileged = True
    config = runtime.container_config(STUBBORN)
    config.mounts.append(mount)
    config.linux.security_context.privileged = True
    container = await runtime.client.create_container(await runtime.sandbox(pod), config, pod)
    await runtime.client.start_container(container)
    return container


async def _code(runtime: Runtime, container: ContainerID, command: str) -> int:
    return (await runtime.client.exec_sync(container, ["sh", "-c", command], 10)).exit_code


@pytest.mark.parametrize(
    ("propagation", "inwards", "outwards"),
    [
        (pb.PROPAGATION_PRIVATE, False, False),
        (pb.PROPAGATION_HOST_TO_CONTAINER, True, False),
        (pb.PROPAGATION_BIDIRECTIONAL, True, True),
    ],
)
async def test_mounts_propagate_in_the_directions_of_the_request(
    runtime: Runtime, shared: SharedDirectory, propagation: pb.MountPropagation.ValueType, inwards: bool, outwards: bool
) -> None:
    shared.mount()
    mount = pb.Mount(host_path=str(shared.path), container_path="/volume", propagation=propagation)
    container = await _start(runtime, mount)
    shared.mount_inside()
    assert (await _code(runtime, container, "test -e /volume/from-host/word") == 0) is inwards
    assert await _code(runtime, container, "mount -t tmpfs none /volume/from-container") == 0
    assert is_mount_point(str(shared.from_container)) is outwards


@pytest.mark.parametrize("propagation", [pb.PROPAGATION_HOST_TO_CONTAINER, pb.PROPAGATION_BIDIRECTIONAL])
async def test_propagation_needs_a_shared_mount(
    runtime: Runtime, shared: SharedDirectory, propagation: pb.MountPropagation.ValueType
) -> None:
    """Propagation that cannot work is refused instead of being ignored silently."""
    shared.mount(shared=False)
    mount = pb.Mount(host_path=str(shared.path), container_path="/volume", propagation=propagation)
    with pytest.raises(CriError, match=f"{shared.path}.* not a shared"):
        await _start(runtime, mount)


async def test_read_only_does_not_reach_below(runtime: Runtime, shared: SharedDirectory) -> None:
    shared.mount()
    shared.mount_inside()
    mount = pb.Mount(host_path=str(shared.path), container_path="/volume", readonly=True)
    container = await _start(runtime, mount)
    assert await _code(runtime, container, "touch /volume/x") != 0
    assert await _code(runtime, container, "touch /volume/from-host/x") == 0


async def test_recursive_read_only(runtime: Runtime, shared: SharedDirectory) -> None:
    """KEP-3857. Tested only if the runtime announces it; ``pykubelet criserver`` refuses it otherwise."""
    shared.mount()
    shared.mount_inside()
    mount = pb.Mount(host_path=str(shared.path), container_path="/volume", readonly=True, recursive_read_only=True)
    handlers = {each.name: each.features for each in (await runtime.client.status()).runtime_handlers}
    if "" not in handlers or not handlers[""].recursive_read_only_mounts:
        if await runtime.is_ours():
            with pytest.raises(PykubeletError, match=r"/volume.*recursive"):
                await _start(runtime, mount)
        return
    container = await _start(runtime, mount)
    assert await _code(runtime, container, "touch /volume/x") != 0
    assert await _code(runtime, container, "touch /volume/from-host/x") != 0
    (reported,) = (await runtime.status(container)).mounts
    assert reported.recursive_read_only
    unable = [name for name, features in handlers.items() if not features.recursive_read_only_mounts]
    for handler in unable:
        pod = runtime.pod_config(attempt=1)
        pod.linux.security_context.namespace_options.pid = pb.CONTAINER
        sandbox = await runtime.sandbox(pod, handler)
        config = runtime.container_config(STUBBORN)
        config.mounts.append(mount)
        with pytest.raises(PykubeletError, match=r"/volume.*recursive"):
            await runtime.client.create_container(sandbox, config, pod)


@pytest.mark.parametrize(("directory", "below"), [("/dev", "/dev/pts"), ("/sys", "/sys/fs/cgroup")])
async def test_a_directory_of_the_node_with_what_is_below_it(runtime: Runtime, directory: str, below: str) -> None:
    """Node agents mount /dev or /sys and see the node's terminals and cgroups, not ones of their own above them."""
    container = await _start(runtime, pb.Mount(container_path=directory, host_path=directory))
    seen = (await runtime.client.exec_sync(container, ["stat", "-c", "%d %i", below], 10)).stdout
    node = Path(below).stat()
    assert seen.decode().split() == [str(node.st_dev), str(node.st_ino)]
