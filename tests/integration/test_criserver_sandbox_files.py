"""The files that the runtime server mounts into containers: writable as with other runtimes, and limited in size."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.runtime import PrivateRuntime
from tests.contract.cri.rig import STUBBORN, Runtime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_FILES = ("/etc/resolv.conf", "/etc/hostname", "/etc/hosts")
_SHARED_MEMORY = 64 << 20
_BOUND = 1 << 20


async def test_pod_that_fills_its_mounted_files_uses_no_node_storage(runtime: Runtime, daemon: PrivateRuntime) -> None:
    """Regression: the files were on the node's /run, which one pod could fill, so that no other could be created."""
    assert isinstance(daemon, PrivateCriServer)
    container = await runtime.start(STUBBORN)
    before = _taken(daemon.home / "run")
    for path in (*_FILES, "/dev/shm/file"):
        command = ["sh", "-c", f"dd if=/dev/zero of={path} bs=1M count=80 2>&1 | tail -1; wc -c < {path}"]
        result = await runtime.client.exec_sync(container, command, 60)
        assert int(result.stdout.split()[-1]) <= (_SHARED_MEMORY if "shm" in path else _BOUND), result.stdout
    assert _taken(daemon.home / "run") - before < 64 << 10
    other = await runtime.create(await runtime.sandbox(runtime.pod_config(attempt=1)), STUBBORN)
    await runtime.client.start_container(other)
    result = await runtime.client.exec_sync(other, ["cat", "/etc/hostname"], 10)
    assert result.stdout == b"pod\n", "another pod has files of its own"


async def test_program_that_rewrites_its_resolver_configuration_is_served(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    script = (
        "echo 'nameserver 192.0.2.1' > /etc/resolv.conf && echo 192.0.2.2 other >> /etc/hosts && cat /etc/resolv.conf"
    )
    result = await runtime.client.exec_sync(container, ["sh", "-c", script], 10)
    assert (result.stdout, result.exit_code) == (b"nameserver 192.0.2.1\n", 0), result.stderr


async def test_container_with_a_read_only_root_cannot_write_its_mounted_files(runtime: Runtime) -> None:
    box = await runtime.sandbox()
    config = runtime.container_config(STUBBORN)
    config.linux.security_context.readonly_rootfs = True
    container = await runtime.client.create_container(box, config, runtime.pod_config())
    await runtime.client.start_container(container)
    for path in _FILES:
        result = await runtime.client.exec_sync(container, ["sh", "-c", f"echo x >> {path}"], 10)
        assert result.exit_code != 0 and b"Read-only file system" in result.stderr


async def test_absurd_dns_configuration_is_refused(runtime: Runtime) -> None:
    pod = runtime.pod_config()
    pod.dns_config.CopyFrom(pb.DNSConfig(searches=["x" * 300_000]))
    with pytest.raises(PykubeletError, match="DNS configuration takes more than 256 KiB"):
        await runtime.sandbox(pod)


def _taken(directory: Path) -> int:
    """Bytes of files on the directory's own file system."""
    device = directory.stat().st_dev
    total = 0
    for path, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if (Path(path) / name).lstat().st_dev == device]
        for name in names:
            with suppress(FileNotFoundError):  # of a command that has just ended
                total += (Path(path) / name).lstat().st_blocks * 512
    return total
