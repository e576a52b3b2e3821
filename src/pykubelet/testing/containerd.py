"""A private containerd with its own root, state, socket, bridge and address range, isolated from other runtimes.

The integration tests and the benchmarks use it. All of its files are below one directory, except the paths that
containerd 1.6 and the CNI library hard-code (``/run/containerd/s``, ``/var/lib/cni``), whose files are removed by name.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.testing.ociimage import ImageSpec, pack, pause_image
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import RuntimeTraces, bridge_network
from pykubelet.testing.traces import remove_files, remove_firewall_rules, remove_mounts

PAUSE_IMAGE = "localhost/pykubelet/pause:1"
_START_SECONDS = 30.0 * PATIENCE
_CNI_RESULTS = Path("/var/lib/cni/results")
_STOP_SECONDS = 15.0 * PATIENCE

_CONFIG = """\
version = 2
root = "{home}/root"
state = "{home}/state"
oom_score = 0
disabled_plugins = [{disabled}]
[grpc]
  address = "{home}/ctrd.sock"
[ttrpc]
  address = "{home}/ctrd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  enable_unprivileged_ports = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_bin}"
    conf_dir = "{home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{home}/runc"
        BinaryName = "{runc}"
"""
_DISABLED = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
)


@dataclass(frozen=True, slots=True)
class PrivateContainerd:
    """One private containerd. ``home`` must be short: a socket path has at most 107 bytes."""

    home: Path
    bridge: str
    """Name of the bridge, at most 15 characters."""
    subnet: str
    """Address range of the pods, in CIDR form."""
    cni_bin: str = "/usr/lib/cni"
    """Directory of the CNI plugins."""
    runc: str = "runc"
    """Path or name of the OCI runtime's program."""

    @property
    def name(self) -> str:
        return "containerd"

    @property
    def socket(self) -> Path:
        return self.home / "ctrd.sock"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @property
    def _pid_file(self) -> Path:
        return self.home / "containerd.pid"

    def start(self) -> None:
        """Start the daemon unless it runs; returns when its CRI service responds. Permanent: it did not come up."""
        for program, package in (("containerd", "containerd"), ("runc", "runc"), ("ctr", "containerd")):
            if shutil.which(program) is None:
                raise NotFound(f"{program} is missing; install it with: apt-get install {package}")
        if self.pid() is None:
            self._write_configuration()
            log = (self.home / "containerd.log").open("ab")
            with log:
                process = subprocess.Popen(
                    ["containerd", "--config", str(self.home / "config.toml")],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._pid_file.write_text(str(process.pid))
            # The daemon outlives this program; a Popen object that is not waited for would warn about that.
            process.returncode = 0
        self._wait_ready()
        self.load(pause_image(PAUSE_IMAGE))

    def load(self, spec: ImageSpec) -> None:
        """Build an image from busybox and import it."""
        archive = self.home / "images" / (spec.reference.replace("/", "_").replace(":", "_") + ".tar")
        pack(spec, archive, os.uname().machine)
        self.ctr("images", "import", str(archive))
        archive.unlink()

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own client in CRI's namespace; returns its output."""
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Permanent(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def pid(self) -> int | None:
        """The daemon's process id; None if it does not run."""
        try:
            pid = int(self._pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.home).encode() in command else None

    def stop(self) -> None:
        """Stop the daemon; its containers keep running."""
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that ends the daemon, and wait until it has ended."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + _STOP_SECONDS
        while self.pid() is not None:
            _reap(pid)
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def traces(self) -> RuntimeTraces:
        """The places where pods can leave something behind."""
        state = self.home / "state"
        return RuntimeTraces(
            # Shims, by the socket in their command line.
            process_marks=(f"-address\0{self.socket}",),
            mount_roots=(str(state),),
            netns_directories=(str(state / "io.containerd.grpc.v1.cri" / "netns"),),
            directories=(str(self.home / "ipam"),),
        )

    def destroy(self) -> None:
        """Remove every trace: containers, shims, daemon, bridge, mounts and files. Works after any crash."""
        # libcni keeps a file per sandbox for the loopback network, whose name is not that of the private network.
        for sandbox in (self.home / "root" / "io.containerd.grpc.v1.cri" / "sandboxes").glob("*"):
            (_CNI_RESULTS / f"cni-loopback-{sandbox.name}-lo").unlink(missing_ok=True)
        self.stop()
        for pid in self._shims():
            _kill_tree(pid)
        for socket in self._shim_sockets():
            socket.unlink(missing_ok=True)
        remove_mounts(self.home)
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True)
        remove_firewall_rules(self.bridge)
        for path in _CNI_RESULTS.glob(f"{self.bridge}-*"):
            path.unlink(missing_ok=True)
        remove_files(self.home)

    def _write_configuration(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        disabled = ", ".join(f'"{name}"' for name in _DISABLED)
        text = _CONFIG.format(
            home=self.home, disabled=disabled, pause=PAUSE_IMAGE, cni_bin=self.cni_bin, runc=self.runc
        )
        (self.home / "config.toml").write_text(text)
        network = bridge_network(self.bridge, self.subnet, self.home / "ipam")
        (self.home / "cni").mkdir(exist_ok=True)
        (self.home / "cni" / "10-bridge.conflist").write_text(json.dumps(network, indent=1))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.socket.exists():
                with contextlib.suppress(Permanent, subprocess.TimeoutExpired):
                    self.ctr("images", "list", "-q")
                    return
            time.sleep(0.05)
        tail = (self.home / "containerd.log").read_text(errors="replace")[-2000:]
        raise Permanent(f"containerd did not come up within {_START_SECONDS:.0f} s; its log ends with:\n{tail}")

    def _shims(self) -> list[int]:
        """Shims of this containerd, found by its socket in their command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    command = (entry / "cmdline").read_bytes()
                    if b"containerd-shim" in command and str(self.socket).encode() in command:
                        found.append(int(entry.name))
        return found

    def _shim_sockets(self) -> list[Path]:
        """Sockets of shims that were killed; containerd records them beside each task."""
        notes = (self.home / "state").glob("io.containerd.runtime.v2.task/*/*/address")
        return [Path(note.read_text().removeprefix("unix://")) for note in notes]


def _kill_tree(pid: int) -> None:
    """Kill a shim's containers, then the shim."""
    # /proc lists the children of each thread separately.
    lists = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            lists.append(file.read_text())
    for child in [*(int(each) for text in lists for each in text.split()), pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
