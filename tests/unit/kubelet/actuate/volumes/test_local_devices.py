"""Devices of local volumes are released by threads."""

from pathlib import Path
from typing import cast

import pytest

from pykubelet.kubelet.actuate.volumes.mount import local_devices
from pykubelet.kubelet.actuate.volumes.mount.format_device import Formatter
from pykubelet.kubelet.actuate.volumes.mount.local_devices import LocalDevices, mounted_at
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import parse
from pykubelet.testing.loop_files import files_in_loop


async def test_unused_device_is_unmounted_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = LocalDevices(dirs=PodDirs.at(tmp_path), blocking=BlockingJobs(30.0), formatter=cast(Formatter, None))
    await devices.release(frozenset())  # without a device so far
    wanted, unused = (mounted_at(devices.dirs.root, name) for name in ("wanted", "unused"))
    for path in (wanted, unused):
        path.mkdir(parents=True)
    lines = (f"3{at} 35 8:{at} / {path} rw shared:1 - ext4 /dev/{at} rw\n" for at, path in enumerate((wanted, unused)))
    table = parse("".join(lines))
    monkeypatch.setattr(local_devices, "all_mounts", lambda: table)
    unmounted: list[str] = []
    monkeypatch.setattr(mounts, "unmount", unmounted.append)
    with files_in_loop(devices.dirs.root) as used:
        await devices.release(frozenset({"wanted"}))
    assert (used, unmounted) == ([], [str(unused)])
    assert wanted.is_dir() and not unused.exists()
