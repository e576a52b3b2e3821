"""A root directory on an ext4 file system that cannot look up one of its files, whose inode has a bad checksum.

Such a file can be neither read, nor renamed, nor removed, until fsck has checked the file system.
"""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_SERVES = 10.0 * PATIENCE
"""Limit of the seconds that a start may take."""
_CONTAINER = "a" * 64


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass
class Disk:
    """A file system in a file, with the root directory of a server that has an image, a layer and a sandbox."""

    file: Path
    filled: Path
    """The file system before any damage."""
    server: PrivateCriServer
    root: Path

    def mount(self) -> None:
        self.root.mkdir(mode=0o711, exist_ok=True)
        _run("mount", "-o", "loop,errors=continue", str(self.file), str(self.root))

    def unmount(self) -> None:
        def done() -> bool:
            return subprocess.run(["umount", str(self.root)], check=False, capture_output=True).returncode == 0

        wait_for(done, 20, lambda: "the root directory is busy")
        # What the loop device has cached would hide a change of the file.
        wait_for(lambda: not _run("losetup", "-j", str(self.file)), 20, lambda: "the loop device is in use")

    def damage(self, path: str) -> str:
        """Give a file, found by its pattern, an inode with a bad checksum; return its path."""
        shutil.copyfile(self.filled, self.file)
        self.mount()
        (found,) = (each.relative_to(self.root) for each in self.root.glob(path))
        self.unmount()
        _run("debugfs", "-w", "-R", f"sif /{found} checksum 0xdead", str(self.file))
        self.mount()
        with pytest.raises(OSError):
            (self.root / found).lstat()
        return str(found)

    def ask(self) -> tuple[list[str], list[dict[str, str]]]:
        """The sandboxes, and what is quarantined."""

        async def ask() -> tuple[list[str], list[dict[str, str]]]:
            async with CriClient.connect(self.server.endpoint) as client:
                items = json.loads((await client.status(verbose=True)).info["quarantine"])
                return [each.id for each in await client.list_pod_sandboxes()], items

        return asyncio.run(ask())

    def images(self) -> list[str]:
        """The names of the images."""

        async def ask() -> list[str]:
            async with CriClient.connect(self.server.endpoint) as client:
                return [name for image in await client.list_images() for name in image.repo_tags]

        return asyncio.run(ask())


async def _remove_sandbox(endpoint: str, sandbox: str) -> None:
    async with CriClient.connect(endpoint) as client:
        await client.stop_pod_sandbox(SandboxID(sandbox))
        await client.remove_pod_sandbox(SandboxID(sandbox))


async def _make_sandbox(endpoint: str, cgroup: str) -> str:
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="stays", namespace="n", uid="u"),
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"/{cgroup}/stays"),
    )
    config.linux.security_context.namespace_options.network = pb.NODE
    async with CriClient.connect(endpoint) as client:
        return await client.run_pod_sandbox(config)


@pytest.fixture(scope="module")
def disk(isolation: Isolation) -> Iterator[Disk]:
    if missing := [name for name in ("mkfs.ext4", "debugfs") if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install e2fsprogs)")
    server = PrivateCriServer(isolation.home / "i", f"{isolation.bridge}i", isolation.further_subnet("i"))
    cgroup = f"{isolation.cgroup_root}-i"
    server.write_configuration()
    made = Disk(isolation.home / "disk", isolation.home / "filled", server, server.settings().root)
    _run("truncate", "-s", "96M", str(made.file))
    _run("mkfs.ext4", "-q", "-F", "-O", "metadata_csum", str(made.file))
    made.mount()
    try:
        server.load(ImageSpec(BUSYBOX))
        server.start()
        asyncio.run(_make_sandbox(server.endpoint, cgroup))
        server.stop()
        volumes = made.root / "storage" / "containers" / _CONTAINER / "volumes"
        volumes.mkdir(parents=True)
        (volumes.parent / "rootfs.json").write_text("{}")
        made.unmount()
        shutil.copyfile(made.file, made.filled)
        made.mount()
        yield made
    finally:
        server.destroy()
        subprocess.run(["umount", "-l", str(made.root)], check=False, capture_output=True)
        made.file.unlink(missing_ok=True)
        made.filled.unlink(missing_ok=True)
        remove_cgroups(cgroup)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("images/blobs/sha256/*", "unusable file"),
        ("images/index.json", "unusable file"),
        ("storage/layers/1", "unused image layer"),
        (f"storage/containers/{_CONTAINER}", "unused root file system"),
        (f"storage/containers/{_CONTAINER}/volumes", "trash"),
        ("state.db", ""),
    ],
)
def test_server_with_a_file_that_the_file_system_cannot_look_up_serves_and_names_it(
    disk: Disk, path: str, kind: str
) -> None:
    disk.server.signal(signal.SIGKILL)
    disk.unmount()
    pattern = path if "*" not in path else f"images/blobs/sha256/{_manifest(disk)}"
    damaged = disk.damage(pattern)
    disk.server.log.write_text("")
    begun = time.monotonic()
    disk.server.start()
    assert time.monotonic() - begun < _SERVES
    sandboxes, _ = disk.ask()
    assert len(sandboxes) == 1
    assert damaged in disk.server.log.read_text()
    if kind:
        wait_for(lambda: any(each["kind"] == kind for each in disk.ask()[1]), 20, lambda: str(disk.ask()[1]))
    else:
        # The next start uses what the first one has restored.
        disk.server.signal(signal.SIGKILL)
        disk.server.start()
        assert disk.ask()[0] == sandboxes


def test_images_are_pulled_without_the_former_index(disk: Disk) -> None:
    disk.server.signal(signal.SIGKILL)
    disk.unmount()
    disk.damage("images/index.json")
    for _ in range(2):
        disk.server.start()
        disk.server.load(ImageSpec(BUSYBOX))
        disk.server.signal(signal.SIGKILL)
    disk.server.start()
    assert disk.images() == [BUSYBOX]


def test_state_file_that_fsck_has_repaired_brings_back_no_sandbox(disk: Disk) -> None:
    disk.server.signal(signal.SIGKILL)
    disk.unmount()
    disk.damage("state.db")
    disk.server.start()
    (sandbox,), _ = disk.ask()
    asyncio.run(_remove_sandbox(disk.server.endpoint, sandbox))
    disk.server.signal(signal.SIGKILL)
    disk.unmount()
    subprocess.run(["e2fsck", "-fy", str(disk.file)], check=False, capture_output=True)
    disk.mount()
    assert (disk.root / "state.db").is_file()
    for _ in range(2):
        disk.server.start()
        assert disk.ask()[0] == []
        disk.server.signal(signal.SIGKILL)
        # A server of an older version, which knows this name only, would find what is out of date.
        assert not (disk.root / "state.db").exists()


def _manifest(disk: Disk) -> str:
    """The name of any blob of the image."""
    disk.mount()
    try:
        return sorted(each.name for each in (disk.root / "images/blobs/sha256").iterdir())[0]
    finally:
        disk.unmount()
