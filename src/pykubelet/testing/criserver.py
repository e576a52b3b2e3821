"""A private ``pykubelet criserver`` with its own root, state, socket, bridge and address range.

Its interface is that of :mod:`pykubelet.testing.containerd`.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.config import Settings, load_settings
from pykubelet.criserver.embedded import read_note
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.sockets import listener
from pykubelet.testing import shifted
from pykubelet.testing.agent import environment
from pykubelet.testing.killpoints import VARIABLE
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import RuntimeTraces, bridge_network
from pykubelet.testing.traces import kill_processes, remove_files, remove_firewall_rules, remove_mounts

_START_SECONDS = 30.0 * PATIENCE
_STOP_SECONDS = 15.0 * PATIENCE
_OCI = os.environ.get("PYKUBELET_TEST_OCI", "runc")
"""Program of the OCI runtime: runc or crun, or a path of one; or of a shim (``containerd-shim-runc-v2``)."""
_HANDLERS = {"runc": "runc", "crun": "crun", Path(_OCI).name: _OCI}
_PROGRAMS = {"conmon": "conmon", _OCI: _OCI, "catatonit": "catatonit"}


@dataclass(frozen=True, slots=True)
class PrivateCriServer:
    """One private server. ``home`` must be short: a socket path has at most 107 bytes."""

    home: Path
    bridge: str
    """Name of the bridge, at most 15 characters."""
    subnet: str
    """Address range of the pods, in CIDR form."""
    module: str = field(default_factory=shifted.module)
    """Name of the Python module that is run; tests that kill the server at chosen steps run another."""
    cni: Mapping[str, object] = field(default_factory=dict)
    """Settings of the ``cni`` section besides its directory."""
    chained: Sequence[str] = ()
    """Names of plugins chained after the usual ones; without any, the network is the server's own default."""
    handlers: Mapping[str, str] = field(default_factory=dict)
    """Programs of further OCI runtimes, by the handler of a RuntimeClass."""
    pause_image: str = ""
    """Image whose program holds shared PID namespaces; default: a program of this machine."""
    further: Mapping[str, object] = field(default_factory=dict)
    """Further settings of the configuration file, which replace these."""

    @property
    def name(self) -> str:
        return "pykubelet"

    @property
    def socket(self) -> Path:
        return self.home / "cri.sock"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @property
    def config(self) -> Path:
        """Path of the server's configuration file."""
        return self.home / "criserver.yaml"

    @property
    def log(self) -> Path:
        return self.home / "criserver.log"

    @property
    def kill_order(self) -> Path:
        """The file with the number of the step at which the server dies, see ``killpoints``."""
        return self.home / "kill-at"

    def settings(self) -> Settings:
        """The settings in the configuration file."""
        return load_settings(self.config)

    def start(self) -> None:
        """Start the server unless it runs; returns when it listens. Permanent: it did not come up."""
        for program, package in _PROGRAMS.items():
            if shutil.which(program) is None:
                raise NotFound(f"{program} is missing; install it with: apt-get install {package}")
        self.write_configuration()
        if self.pid() is None:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", self.module, "criserver", "--config", str(self.config)],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env={**environment(), VARIABLE: str(self.kill_order)},
                )
            self._wait_ready(process)
            # The daemon outlives this program; a Popen object that is not waited for would warn about that.
            process.returncode = 0

    def load(self, spec: ImageSpec) -> None:
        """Build an image from busybox and import it; the server need not run."""
        archive = self.home / "images" / (spec.reference.replace("/", "_").replace(":", "_") + ".tar")
        pack(spec, archive, os.uname().machine)
        if self.pid() is None:
            asyncio.run(self._import(archive))
        else:
            command = [sys.executable, "-m", "pykubelet.cli", "image", "--endpoint", self.endpoint, "import", "-q"]
            done = subprocess.run([*command, str(archive)], capture_output=True, text=True, env=environment())
            if done.returncode != 0:
                raise Permanent(f"cannot import {spec.reference}: {done.stderr.strip()}")
        archive.unlink()

    async def _import(self, archive: Path) -> None:
        from pykubelet.criserver.compose.images import open_images

        stores = await open_images(self.settings(), SystemClock())
        with archive.open("rb") as file:
            await stores.images.import_archive(file, str(archive))

    def pid(self) -> int | None:
        """The daemon's process id; None if it does not run."""
        note = read_note(self.home / "run")
        # The boot id is not compared: the server may run with another one than the test (`shifted`).
        return note.process.pid if note and is_alive(ProcessRef(note.process.pid, note.process.started)) else None

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
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def traces(self) -> RuntimeTraces:
        """The places where pods can leave something behind."""
        root, run = self.home / "root", self.home / "run"
        return RuntimeTraces(
            # conmon is found by its directory for exit codes, shims by the socket for their events, OCI runtime calls
            # and plugins by their scratch directory.
            process_marks=(f"--exit-dir\0{run}/exits", f"{run}/shims.sock", f"{run}/tmp"),
            mount_roots=(str(self.home),),
            netns_directories=(str(run / "ns"), str(run / "netns")),
            directories=(
                *(str(run / name) for name in ("bundles", "exits", "sandboxes", "oci", "tmp")),
                *(str(root / name) for name in ("ipam", "network", "storage/containers")),
            ),
        )

    def destroy(self) -> None:
        """Remove every trace: containers, monitors, daemon, bridge, mounts and files. Works after any crash."""
        self.signal(signal.SIGKILL)
        self.kill_containers()
        kill_processes(self.home)
        remove_mounts(self.home)
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True)
        remove_firewall_rules(self.bridge)
        remove_files(self.home)

    def kill_containers(self) -> None:
        """Kill the monitors, then the containers, as a power loss would."""
        run = self.home / "run"
        kill_processes(run)
        # Those of shims are in the directories of their tasks.
        for note in (*run.glob("bundles/*/pid"), *run.glob("sandboxes/*/infra/pid"), *run.glob("oci/*/*/init.pid")):
            with contextlib.suppress(OSError, ValueError):
                _kill(int(note.read_text()), note.parent)

    def write_configuration(self) -> None:
        """Write the server's configuration, and that of its network unless it is the server's default network."""
        (self.home / "cni").mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.chained:
            network = bridge_network(self.bridge, self.subnet, self.home / "root" / "ipam", self.chained)
            (self.home / "cni" / "10-bridge.conflist").write_text(json.dumps(network, indent=1))
        document = {
            "root": str(self.home / "root"),
            "run": str(self.home / "run"),
            "listen": str(self.socket),
            "default_handler": Path(_OCI).name,
            "handlers": {name: _handler(path) for name, path in {**_HANDLERS, **self.handlers}.items()},
            "registries_file": str(self.home / "registries.toml"),
            "registry_dirs": [str(self.home / "certs.d")],
            "image_policy_file": str(self.home / "image-policy.toml"),
            "cdi_dirs": [str(self.home / "cdi")],
            "pause_image": self.pause_image,
            "cni": {
                "conf_dir": str(self.home / "cni"),
                "default_bridge": self.bridge,
                "default_subnet": self.subnet,
                **self.cni,
            },
            **self.further,
        }
        self.config.write_text(json.dumps(document, indent=1))

    def _wait_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if listener(self.socket) == process.pid:
                return
            time.sleep(0.02 * PATIENCE)
        tail = self.log.read_text(errors="replace")[-2000:]
        raise Permanent(f"the runtime server did not come up within {_START_SECONDS:.0f} s; its log ends:\n{tail}")


def _handler(path: str) -> dict[str, str]:
    return {"path": path, "type": "shim" if Path(path).name.startswith("containerd-shim-") else "oci"}


def _kill(pid: int, directory: Path) -> None:
    """Kill a container's first process; a process that has reused its PID is recognized by its other cgroup."""
    names = (directory.name, directory.parent.name)
    text = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    if any(name in text for name in names):
        os.kill(pid, signal.SIGKILL)
