"""The Go kubelet as a peer on the same containerd: standalone with static pods, or as the node of an API server.

It has its own root and cgroups and serves only the read-only port, unless commands are to be run. Otherwise it uses
its defaults: cAdvisor, the resource managers and eviction run as on any node.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.figures import GO
from benchmarks.manifests import Manifest, with_static_volumes
from benchmarks.observer import NODE
from benchmarks.subjects import MAX_PODS, Subject, kill_strays
from pykubelet.base.errors import Permanent
from pykubelet.testing.agent import wait_for
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.traces import remove_cgroups, remove_files, remove_mounts

_START_SECONDS = 60.0
_STOP_SECONDS = 20
_LOOK_SECONDS = 0.02
_CGROUPS = Path("/sys/fs/cgroup")
_LOG_LINKS = Path("/var/log/containers")
_DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
# The Go kubelet sets these sysctls at its start, regardless of its configuration.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class GoKubelet(Subject):
    """One Go kubelet with a given binary."""

    label = GO
    volumes = staticmethod(with_static_volumes)

    def __init__(
        self,
        binary: Path,
        home: Path,
        socket: Path,
        cgroup: str,
        kubeconfig: Path | None = None,
        *,
        pids: int = -1,
        json_only: bool = False,
        serves: bool = False,
    ) -> None:
        self._binary = binary
        self._kubeconfig = kubeconfig
        self._home = home
        self._socket = socket
        self._cgroup = cgroup
        self._pids = pids
        """Limit of the processes of one pod."""
        self._json_only = json_only
        """Whether its API server reads and writes JSON only: its default is protobuf."""
        self._serves = serves
        """Whether it serves its ``port`` too, and allows everyone everything."""
        self.port = free_port()
        self._read_only_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._sysctls: dict[str, str] = {}
        self._made_device_plugins = not _DEVICE_PLUGINS.exists()

    def as_node(self, home: Path, cgroup: str, kubeconfig: Path) -> "GoKubelet":
        """The same binary on the same runtime, as the node of a cluster."""
        return GoKubelet(self._binary, home, self._socket, cgroup, kubeconfig)

    def version(self) -> str:
        """Version that the binary reports, such as ``v1.36.2``."""
        done = subprocess.run([str(self._binary), "--version"], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.split()[-1]

    @property
    def manifests(self) -> Path:
        return self._home / "manifests"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise Permanent("the Go kubelet does not run")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pods_url(self) -> str:
        """URL of its list of pods."""
        return f"http://127.0.0.1:{self._read_only_port}/pods"

    def start(self) -> None:
        for directory in (self.manifests, self._home / "log", self._home / "root", self._home / "plugins"):
            directory.mkdir(parents=True, exist_ok=True)
        for hierarchy in _hierarchies():
            (hierarchy / self._cgroup.strip("/")).mkdir(exist_ok=True)
        self._sysctls = self._sysctls or {name: Path("/proc/sys", name).read_text() for name in _SYSCTLS}
        (self._home / "config.json").write_text(json.dumps(self._configuration()))
        command = [
            *(str(self._binary), "--config", str(self._home / "config.json")),
            *("--root-dir", str(self._home / "root"), "--cert-dir", str(self._home / "pki")),
            *("--hostname-override", NODE),
            *(("--kubeconfig", str(self._kubeconfig)) if self._kubeconfig else ()),
        ]
        with (self._home / "kubelet.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self._answers, _START_SECONDS, lambda: f"the Go kubelet did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self._process.kill()
            self._process.wait()
            self._process = None

    def destroy(self) -> None:
        self.stop()
        kill_strays(self._home)
        for name, value in self._sysctls.items():
            Path("/proc/sys", name).write_text(value)
        for link in _LOG_LINKS.iterdir() if _LOG_LINKS.exists() else ():
            with contextlib.suppress(FileNotFoundError):  # another node has removed it
                if str(link.readlink()).startswith(f"{self._home}/"):
                    link.unlink()
        if self._made_device_plugins:
            remove_files(_DEVICE_PLUGINS)
            with contextlib.suppress(OSError):
                _DEVICE_PLUGINS.parent.rmdir()
        remove_mounts(self._home)
        remove_files(self._home)
        remove_cgroups(self._cgroup)

    async def pods_as_seen(self) -> AsyncIterator[Manifest]:
        # It serves no watch, so its list is polled.
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._read_only_port)
            writer.write(b"GET /pods HTTP/1.0\r\nHost: localhost\r\n\r\n")
            body = (await reader.read()).partition(b"\r\n\r\n")[2]
            writer.close()
            for pod in json.loads(body)["items"] or ():
                yield pod
            await asyncio.sleep(_LOOK_SECONDS)

    def _configuration(self) -> dict[str, object]:
        return {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self._home / "log"),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._cgroup,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "failCgroupV1": False,
            "enableServer": self._serves,
            "port": self.port,
            "readOnlyPort": self._read_only_port,
            "address": "127.0.0.1",
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "makeIPTablesUtilChains": False,
            "volumePluginDir": str(self._home / "plugins"),
            "registerNode": self._kubeconfig is not None,
            "maxPods": MAX_PODS,
            "serializeImagePulls": False,
            "registryPullQPS": 0,
            "eventRecordQPS": 0,
            "podPidsLimit": self._pids,
            **({"contentType": "application/json"} if self._json_only else {}),
        }

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise Permanent(f"the Go kubelet ended with {self._process.returncode}:\n{self.log_tail()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._read_only_port), 1):
            return True
        return False

    def log_tail(self) -> str:
        """The end of its log."""
        return (self._home / "kubelet.log").read_text(errors="replace")[-3000:]


def _hierarchies() -> list[Path]:
    """The roots of all cgroup hierarchies, v1 or v2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [each for each in _CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]
