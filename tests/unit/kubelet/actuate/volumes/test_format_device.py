"""Commands run on a device by its content; the programs are scripts that record their arguments."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Permanent, PykubeletError, Unsupported
from pykubelet.kubelet.actuate.volumes.mount.format_device import Device, Formatter


class Programs:
    """A directory of programs, and what was run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.log.touch()

    def add(self, name: str, says: str = "", code: int = 0) -> None:
        path = self.directory / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\nprintf "{says}"\nexit {code}\n')
        path.chmod(0o755)

    @property
    def runs(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if not line.startswith("blkid")]


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    made = Programs(tmp_path)
    for name in ("mount", "mkfs.ext4", "mkfs.xfs", "fsck"):
        made.add(name)
    made.add("blkid", code=2)
    return made


DEVICE = Device("/dev/x")


@pytest.mark.parametrize(
    ("device", "found", "runs"),
    [
        (DEVICE, "", ["mkfs.ext4 -F -m0 /dev/x", "mount -t ext4 -o defaults /dev/x /t"]),
        (Device("/dev/x", "xfs"), "", ["mkfs.xfs -f /dev/x", "mount -t xfs -o defaults /dev/x /t"]),
        (DEVICE, "TYPE=ext4", ["fsck -a /dev/x", "mount -t ext4 -o defaults /dev/x /t"]),
        (Device("/dev/x", "xfs"), "TYPE=xfs", ["mount -t xfs -o defaults /dev/x /t"]),
        (
            Device("/dev/x", options=("noatime", "ro"), read_only=True),
            "TYPE=ext4",
            ["mount -t ext4 -o noatime,ro,defaults /dev/x /t"],
        ),
    ],
)
async def test_format_commands_by_content_of_the_device(
    programs: Programs, device: Device, found: str, runs: list[str]
) -> None:
    if found:
        programs.add("blkid", f"DEVNAME=/dev/x\\n{found}\\n")
    await Formatter(10.0, str(programs.directory)).mount(device, Path("/t"))
    assert programs.runs == runs


@pytest.mark.parametrize(
    ("device", "blkid", "fsck", "error", "message"),
    [
        (DEVICE, ("TYPE=xfs\\n", 0), 0, Conflict, "holds 'xfs', not 'ext4'; clear it"),
        (DEVICE, ("PTTYPE=dos\\n", 0), 0, Conflict, "holds 'unknown data, probably partitions'"),
        (DEVICE, ("", 0), 0, Permanent, "cannot detect the content of /dev/x"),
        (DEVICE, ("", 8), 0, Permanent, "cannot detect the content of /dev/x"),
        (DEVICE, ("TYPE=ext4\\n", 0), 4, Permanent, "could not correct"),
        (Device("/dev/x", read_only=True), ("", 2), 0, Conflict, "cannot mount unformatted disk /dev/x"),
        (
            Device("/dev/x", "jfs"),
            ("", 2),
            0,
            Unsupported,
            "mkfs.jfs is not installed on this node; on Debian: apt-get",
        ),
    ],
)
async def test_device_with_other_content_is_neither_formatted_nor_mounted(
    programs: Programs, device: Device, blkid: tuple[str, int], fsck: int, error: type[PykubeletError], message: str
) -> None:
    programs.add("blkid", *blkid)
    programs.add("fsck", code=fsck)
    with pytest.raises(error, match=message):
        await Formatter(10.0, str(programs.directory)).mount(device, Path("/t"))
    assert not [run for run in programs.runs if not run.startswith("fsck")]


async def test_device_corrected_by_fsck_is_mounted(programs: Programs) -> None:
    programs.add("blkid", "TYPE=ext4\\n")
    programs.add("fsck", code=1)
    await Formatter(10.0, str(programs.directory)).mount(DEVICE, Path("/t"))
    assert programs.runs[-1].startswith("mount")
