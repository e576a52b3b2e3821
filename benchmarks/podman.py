"""``podman kube play`` as a peer: podman with a storage and a network namespace of its own, and the same OCI runtime.

The network namespace takes its bridges, firewall rules and name server along when it is removed. Otherwise podman has
its defaults: an infra container in each pod, and a network with a name server for all of them.
"""

import contextlib
import os
import resource
import shutil
import subprocess
from pathlib import Path

from benchmarks.usage import children_of
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.testing.ociimage import ImageSpec, pack

_NAMESPACE = "pkbench-podman"
_SUBNET = "10.197.48.0/20"
_SECONDS = 120.0
_PROCESSES = 8192
_CGROUPS = Path("/sys/fs/cgroup")
_INFRA = "catatonit"


class Podman:
    """One installation of podman below a directory."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def create(self) -> None:
        """Write the configuration and make the network namespace. NotFound: a program is missing."""
        for program in ("podman", "nsenter", "ip"):
            if shutil.which(program) is None:
                raise NotFound(f"needs {program}; install it with: apt-get install podman util-linux iproute2")
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "network").mkdir(exist_ok=True)
        self._configuration.write_text(self._settings())
        _call("ip", "netns", "add", _NAMESPACE)
        _call("ip", "-n", _NAMESPACE, "link", "set", "lo", "up")

    def load(self, spec: ImageSpec) -> None:
        """Build an image from busybox and load it."""
        archive = self._home / "image.tar"
        pack(spec, archive, os.uname().machine)
        self.run("load", "--quiet", "--input", str(archive))
        archive.unlink()

    def command(self, *words: str) -> list[str]:
        """Return the command line of podman with these words."""
        return [
            *("nsenter", f"--net=/run/netns/{_NAMESPACE}", "env", f"CONTAINERS_CONF={self._configuration}", "podman"),
            *("--root", str(self._home / "root"), "--runroot", str(self._home / "run"), "--storage-driver", "overlay"),
            *words,
        ]

    def run(self, *words: str) -> str:
        """Run podman; returns its output. Permanent: it has failed."""
        return _call(*self.command(*words))

    def version(self) -> str:
        return self.run("version", "--format", "{{.Client.Version}}").strip()

    def log_of(self, pod: str) -> Path:
        """Path of the log of the pod's container ``main``."""
        return Path(
            self.run("container", "inspect", "--format", "{{.HostConfig.LogConfig.Path}}", f"{pod}-main").strip()
        )

    def processes(self) -> list[int]:
        """The monitors of its containers, its name server, and the infra containers."""
        own = [int(word) for word in _call("ip", "netns", "pids", _NAMESPACE).split()]
        return [*own, *(child for child in children_of(own) if _name(child) == _INFRA)]

    def destroy(self) -> None:
        """Remove its pods and its network namespace; works after any crash. The directory stays."""
        if self._configuration.exists():
            with contextlib.suppress(Permanent):
                self.run("pod", "rm", "--all", "--force", "--time", "0")
        if Path("/run/netns", _NAMESPACE).exists():
            _call("ip", "netns", "delete", _NAMESPACE)
        for parent in (_CGROUPS / "libpod_parent", *_CGROUPS.glob("*/libpod_parent")):
            # It is shared with the machine's own podman: what has pods or processes stays.
            for cgroup in (parent / "conmon", parent):
                with contextlib.suppress(OSError):
                    cgroup.rmdir()

    @property
    def _configuration(self) -> Path:
        return self._home / "containers.conf"

    def _settings(self) -> str:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return f"""\
[containers]
log_driver = "k8s-file"
# Its own limits need a capability (CAP_SYS_RESOURCE) that root does not have everywhere.
default_ulimits = ["nofile={files}:{files}", "nproc={_PROCESSES}:{_PROCESSES}"]
[network]
network_backend = "netavark"
network_config_dir = "{self._home}/network"
default_subnet = "{_SUBNET}"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
tmp_dir = "{self._home}/tmp"
static_dir = "{self._home}/root/libpod"
volume_path = "{self._home}/volumes"
"""


def _call(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise Permanent(f"{' '.join(argv)} has exited with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
