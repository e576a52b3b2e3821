"""Build the root disk, the initial RAM disk and the kernel of the emulated machine, and keep them for later runs.

The packages (``packages.txt``) come from the Debian archive, through the apt sources of this machine; for another
release than this machine's, from the same suites of that one. The result is in a directory named by the release and a
digest of everything that it was built from, so that a change of the list builds it again.
"""

import fcntl
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pykubelet.linux.filesystems.mounts import unmount_all_under
from tools.v2 import selinux

_PACKAGES = Path(__file__).with_name("packages.txt")
_ROOT_SIZE = "6G"
"""Size of the root file system; the file is sparse."""
_MODULES = ("virtio_pci", "virtio_blk", "ext4")
"""Kernel modules that are needed before the root file system is there."""
_PACKED = ".xz"
PROJECT_DIRECTORY = "/opt/pykubelet"
"""Directory of the source tree on the machine: its second disk."""
_UNITS_OFF = (
    # They compile for minutes in an emulated machine; pykubelet loads its own profile.
    "apparmor.service",
    # Cold-plugging all devices takes long, too; udev still sees devices that appear later.
    "systemd-udev-trigger.service",
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service", "qemu-guest-agent.service"),
    *("systemd-timesyncd.service", "systemd-update-utmp.service", "systemd-binfmt.service"),
)
CHANNEL_UNIT = """\
[Unit]
Description=Runs the commands of the tests
DefaultDependencies=no
After=sysinit.target dbus.socket
Conflicts=shutdown.target
Before=shutdown.target
StartLimitIntervalSec=0

[Service]
# The tests' programs outlive a restart of the channel.
KillMode=process
Delegate=yes
OOMScoreAdjust=-1000
ExecStartPre=-/sbin/modprobe virtio_console
# The number in the port's name depends on the order of the devices.
ExecStart=/bin/sh -c 'exec /usr/sbin/qemu-ga -m virtio-serial -p /dev/vport*p1'
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
_INIT = """\
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /bin/busybox insmod /modules/$module; done
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do /bin/busybox usleep 10000; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount -t ext4 /dev/vdb /root{project}
/bin/busybox umount /proc /sys
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /lib/systemd/systemd
"""


@dataclass(frozen=True, slots=True)
class Image:
    """The files that a machine boots from, in one directory."""

    directory: Path
    enforcing: bool = False
    """Whether its kernel enforces SELinux."""

    @property
    def root(self) -> Path:
        """The root file system, a sparse file with ext4."""
        return self.directory / "root.img"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.gz"

    @property
    def python(self) -> str:
        """Version of its ``/usr/bin/python3``, such as ``3.11``."""
        return (self.directory / "python").read_text()


def build(cache: Path, release: str = "", *, enforcing: bool = False) -> Image:
    """Return the image, built below ``cache`` unless it is there. Former images of the same kind are removed.

    ``release`` is the code name of a Debian release; empty: that of this machine. ``enforcing``: with SELinux instead
    of AppArmor. CalledProcessError: a tool failed; ``build.log`` beside the image has its output. PermissionError:
    without root.
    """
    own = own_release()
    release = release or own
    sources = debian_sources(own, release)
    packages = [*_PACKAGES.read_text().split(), *(selinux.PACKAGES if enforcing else ())]
    origin = (*packages, Path(__file__).read_text(), sources, selinux.digest() if enforcing else "")
    kind = f"{'selinux' if enforcing else 'image'}-{release}"
    digest = hashlib.sha256("\0".join(origin).encode()).hexdigest()
    image = Image(cache / f"{kind}-{digest[:12]}", enforcing)
    if image.directory.exists():
        return image
    if os.geteuid() != 0:
        raise PermissionError("the image of the emulated machine can only be built by root: sudo make test-v2")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if image.directory.exists():
            return image  # another run has built it meanwhile
        for former in cache.glob(f"{kind}-*"):
            # A build that was killed leaves mounts of /proc and /sys in its tree.
            unmount_all_under(str(former.resolve()))
            shutil.rmtree(former)
        building = cache / f"{kind}-{os.getpid()}.new"
        building.mkdir()
        tree = building / "tree"
        (building / "sources.list").write_text(sources)
        with (cache / "build.log").open("wb") as log:
            _call(log.fileno(), *_bootstrap(tree, building, release, packages))
            _configure(tree)
            _extract(tree, building)
            if enforcing:
                selinux.prepare(tree, partial(_call, log.fileno()))
            disk = ("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree), str(building / "root.img"), _ROOT_SIZE)
            _call(log.fileno(), *disk)
        shutil.rmtree(tree)
        building.rename(image.directory)
        return image


def own_release() -> str:
    """The code name of this machine's Debian release, such as ``bookworm``."""
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.split("=")[1].strip('"') for line in lines if line.startswith("VERSION_CODENAME="))


def debian_sources(own: str, release: str) -> str:
    """The apt sources of this machine that are the Debian archive, one per line, sorted.

    ``own`` is this machine's release. For another one they have its suites: ``trixie-security`` for
    ``bookworm-security``. FileNotFoundError: apt has no list of them.
    """
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = {tuple(line.split()) for line in done.stdout.splitlines()}
    chosen = sorted(row for row in rows if len(row) == 4 and row[3] == "Debian" and row[2] == "main")
    if release != own:
        # Only suites that are named by the release have a counterpart in another one; "stable" has none.
        named = (row for row in chosen if row[1] == own or row[1].startswith(f"{own}-"))
        chosen = [(row[0], release + row[1].removeprefix(own), *row[2:]) for row in named]
    if not chosen:
        suites = "the Debian archive" if release == own else f"the suite {own} of the Debian archive"
        raise FileNotFoundError(f"apt has no lists of {suites}: run apt-get update")
    return "".join(f"deb {uri} {suite} {component}\n" for uri, suite, component, _ in chosen)


def _bootstrap(tree: Path, building: Path, release: str, packages: Sequence[str]) -> Iterator[str]:
    yield from ("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}")
    proxies = subprocess.run(
        ["apt-config", "dump", "--no-empty", "Acquire"], capture_output=True, text=True, check=True
    )
    for line in proxies.stdout.splitlines():
        if line.partition(" ")[0].lower().endswith("::proxy"):
            yield f"--aptopt={line}"
    yield from (f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale"))
    # The initial RAM disk that the kernel's package makes is not used: keep it small.
    small = (
        'd=$1/etc/initramfs-tools/conf.d; mkdir -p $d; printf "MODULES=list\\nBUSYBOX=n\\nCOMPRESS=gzip\\n" > $d/small'
    )
    yield f"--essential-hook={small}"
    yield from (release, str(tree), str(building / "sources.list"))


def _configure(tree: Path) -> None:
    (tree / "etc/hostname").write_text("v2\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost v2\n")
    (tree / "etc/fstab").write_text("")
    (tree / "etc/machine-id").write_text("76320000000000000000000000007632\n")
    (tree / PROJECT_DIRECTORY.lstrip("/")).mkdir(parents=True, exist_ok=True)
    units = tree / "etc/systemd/system"
    for name in _UNITS_OFF:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    (units / "channel.service").write_text(CHANNEL_UNIT)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/channel.service").symlink_to("../channel.service")
    (units / "default.target").unlink(missing_ok=True)
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")


def _extract(tree: Path, target: Path) -> None:
    (kernel,) = (tree / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, target / "vmlinuz")
    modules = tree / "lib/modules" / kernel.name.removeprefix("vmlinuz-")
    (target / "initrd.gz").write_bytes(gzip.compress(initrd(tree / "usr/bin/busybox", modules), 1))
    (target / "python").write_text((tree / "usr/bin/python3").readlink().name.removeprefix("python"))
    for used in (tree / "boot").iterdir():
        used.unlink()


def initrd(busybox: Path, modules: Path) -> bytes:
    """An initial RAM disk (cpio, newc) that mounts the disks of the machine and starts systemd."""
    wanted = load_order((modules / "modules.dep").read_text(), _MODULES)
    names = [Path(each).name.removesuffix(_PACKED) for each in wanted]
    entries = [(name, b"", stat.S_IFDIR | 0o755) for name in ("bin", "dev", "modules", "proc", "root", "sys")]
    entries.append(("bin/busybox", busybox.read_bytes(), stat.S_IFREG | 0o755))
    contents = (_module(modules / each) for each in wanted)
    entries += [(f"modules/{name}", each, stat.S_IFREG | 0o644) for name, each in zip(names, contents, strict=True)]
    init = _INIT.format(modules=" ".join(names), project=PROJECT_DIRECTORY)
    entries.append(("init", init.encode(), stat.S_IFREG | 0o755))
    packed = b"".join(_entry(number, *entry) for number, entry in enumerate(entries, 1))
    return packed + _entry(0, "TRAILER!!!", b"", 0)


def _module(file: Path) -> bytes:
    """A kernel module as insmod of busybox takes it; since Debian 13 the files are compressed."""
    content = file.read_bytes()
    return lzma.decompress(content) if file.name.endswith(_PACKED) else content


def load_order(dependencies: str, wanted: Sequence[str]) -> list[str]:
    """Files of modules in the order in which they can be loaded, by the text of ``modules.dep`` (depmod(8))."""
    table = {Path(file).name.split(".")[0]: (file, *needs.split()) for file, _, needs in _lines(dependencies)}
    found: dict[str, None] = {}
    for name in wanted:
        # The file lists the needed ones from the last to the first.
        found |= dict.fromkeys(reversed(table.get(name, ())))
    return list(found)


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(":") for line in text.splitlines())


def _entry(number: int, name: str, content: bytes, mode: int) -> bytes:
    encoded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return header + b"\0" * (-len(header) % 4) + content + b"\0" * (-len(content) % 4)


def _call(log: int, *command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
