"""The components of containers; conmon and OCI runtime are small scripts that run plain programs of this machine."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container import Container, ContainerDeps, Directories, build_containers
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.images.image_types import SignatureRejected
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.runtimes import MonitoredRuntime, RuntimeHandlers, Task
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.spec import ImageDefaults, SandboxView
from pykubelet.criserver.types import ContainerID, ProcessRef, SandboxID, UserNamespace
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until
from tests.unit.criserver.spec.given import HOST

SANDBOX = SandboxID("s1")
CONMON = """#!{python} -S
import json, os, shutil, signal, subprocess, sys
given = sys.argv[1:]
value = lambda flag: given[given.index(flag) + 1]
bundle, container, exits = value("-b"), value("-c"), value("--exit-dir")
(root,) = [word[21:] for word in given if word.startswith("--runtime-arg=--root=")]
reply = int(os.environ["_OCI_SYNCPIPE"])
if os.fork():
    os._exit(0)
os.setsid()
for fd in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), fd)
open(bundle + "/conmon.pid", "w").write(str(os.getpid()))
if value("-l") != "off":
    open(value("-l")[9:], "a").close()
args = json.load(open(bundle + "/config.json"))["process"]["args"]
if not shutil.which(args[0]):
    os.write(reply, json.dumps({{"data": -1, "message": "No such file: " + args[0]}}).encode() + b"\\n")
    os._exit(1)
state = root + "/" + container
os.mkdir(state)
if "--restore" in given:
    if not os.path.exists(value("--restore") + "/inventory.img"):
        open(bundle + "/restore.log", "w").write("(00.1) Error (criu/image.c:1): no inventory\\n")
        os.write(reply, json.dumps({{"data": -1, "message": "criu failed"}}).encode() + b"\\n")
        os._exit(1)
    waiting = args
else:
    os.mkfifo(state + "/exec.fifo")
    waiting = ["sh", "-c", 'printf 0 > "$0"; exec "$@"', state + "/exec.fifo", *args]
child = subprocess.Popen(waiting, start_new_session=True)
open(state + "/state.json", "w").close()
open(bundle + "/pid", "w").write(str(child.pid))
os.write(reply, json.dumps({{"data": child.pid}}).encode() + b"\\n")
os.close(reply)
code = child.wait()
open(exits + "/.tmp", "w").write(str(code if code >= 0 else 128 - code))
os.rename(exits + "/.tmp", exits + "/" + container)
"""
RUNTIME = """#!/bin/sh
root=${1#--root=}
shift 3
case $1 in
  start) read -r byte < "$root/$2/exec.fifo"; rm "$root/$2/exec.fifo"; touch "$root/started-by-program" ;;
  update) cat > "$root/updated" ;;
  delete) for last; do :; done; rm -rf "$root/$last" ;;
  exec) exec python3 -S -c 'import json, os, sys
open(sys.argv[2], "w").write(str(os.getpid()))
process = json.load(open(sys.argv[1]))
os.execvpe(process["args"][0], process["args"], dict(each.split("=", 1) for each in process["env"]))' "$3" "$5" ;;
esac
"""


class NoCgroups:
    """A cgroup driver without cgroups."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.kill: Callable[[str], None] = lambda path: None

    def delete(self, path: str) -> None:
        assert path
        self.deleted.append(path)


@dataclass
class FakeImages:
    """One image; root file systems are directories."""

    directory: Path
    held: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Names that the image policy does not permit."""

    def find(self, reference: str) -> ImageFacts | None:
        if reference != "app:1":
            return None
        return ImageFacts("sha256:1", "app@sha256:2", ImageDefaults(cmd=("sleep", "60")), "", "SIGINT", ("/data",))

    async def check_use(self, image_id: str, name: str) -> None:
        if name in self.refused:
            raise SignatureRejected(f"SignatureValidationFailed: {name}")

    async def pull(self, reference: str) -> None:
        raise NotFound(f"image {reference} is in no registry")

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
        self.held.add(container)
        (self.directory / container).mkdir(parents=True, exist_ok=True)
        return self.directory / container

    async def make_volumes(
        self, image: ImageFacts, container: ContainerID, *, covered: frozenset[str], user: UserNamespace | None
    ) -> dict[str, str]:
        return {path: f"/volumes/{container}" for path in image.volumes if path not in covered}

    async def make_room(self) -> None:
        return None

    async def release(self, container: ContainerID) -> None:
        self.held.discard(container)


class OneSandbox:
    """A sandbox on the node's namespaces."""

    ready = True
    logs = ""
    infra: ProcessRef | None = None

    def __init__(self, runtime: MonitoredRuntime) -> None:
        self._runtime = runtime

    def check_ready(self, sandbox: SandboxID) -> None:
        if not self.ready:
            raise Permanent("sandbox s1 is not ready")

    def view(self, sandbox: SandboxID) -> SandboxView:
        self.check_ready(sandbox)
        return SandboxView("web", pb.PodSandboxConfig(log_directory=self.logs), {}, "", "", "", "/dev/shm")

    def handler(self, sandbox: SandboxID) -> str:
        return "runc"

    def runtime(self, sandbox: SandboxID) -> MonitoredRuntime:
        return self._runtime

    def infra_process(self, sandbox: SandboxID) -> ProcessRef | None:
        return self.infra


@dataclass
class FakeOomKills:
    """Counts that the test sets."""

    container: int = 0
    pod: int = 0
    followed: list[str] = field(default_factory=list)

    def follow(self, cgroup: str) -> None:
        self.followed.append(cgroup)

    def forget(self, cgroup: str) -> None:
        self.followed.remove(cgroup)

    def of_container(self, cgroup: str) -> int:
        return self.container

    def of_pod(self, cgroup: str) -> int:
        return self.pod


class Rig:
    """The components of containers with what they use."""

    def __init__(self, directory: Path, store: Store, tasks: asyncio.TaskGroup) -> None:
        for name in ("bundles", "exits", "oci", "tmp"):
            (directory / name).mkdir(exist_ok=True)
        self.store = store
        self.oom_kills = FakeOomKills()
        self.images = FakeImages(directory / "rootfs")
        oci = OciRuntime(
            program=_script(directory / "runc", RUNTIME), root=directory / "oci", scratch=directory / "tmp"
        )
        conmon = Conmon(_script(directory / "conmon", CONMON.format(python=sys.executable)), directory / "exits")
        runtime = MonitoredRuntime(oci, conmon)
        self.sandbox = OneSandbox(runtime)
        self.scope = ServerScope.of(tasks, SystemClock())
        self.cgroups = NoCgroups()
        self.deps = ContainerDeps(
            scope=self.scope,
            store=store,
            machine=Machine(
                host=HOST,
                cgroups=cast(CgroupDriver, self.cgroups),
                handlers=RuntimeHandlers(runtimes={"runc": runtime}, default="runc"),
                conmon=conmon,
                oom_kills=self.oom_kills,
            ),
            images=self.images,
            sandboxes=self.sandbox,
            directories=Directories(
                bundles=directory / "bundles",
                exits=directory / "exits",
                seccomp=directory,
                root_filesystems=directory / "containers",
                checkpoints=directory / "checkpoints",
                restores=directory / "restores",
                mapped=directory / "mapped",
                may_restore=True,
            ),
        )
        self.containers = build_containers(self.deps)

    async def create(
        self, *command: str, image: str = "app:1", attempt: int = 0, namespaces: pb.NamespaceOption | None = None
    ) -> Container:
        """``namespaces``: by default it has a PID namespace of its own."""
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="app", attempt=attempt),
            image=pb.ImageSpec(image=image),
            command=command,
            log_path="log",
        )
        options = config.linux.security_context.namespace_options
        options.CopyFrom(namespaces or pb.NamespaceOption(pid=pb.CONTAINER))
        return self.containers.table.get(await self.containers.lifecycle.creator.create(SANDBOX, config))

    async def launched(self, *containers: Container) -> None:
        """Wait until their pre-launches have succeeded or failed: conmon has reported, and does nothing more."""
        prelaunches = [self.containers.lifecycle.starter._launcher._prelaunches[each.id] for each in containers]
        await until(lambda: all(each.result.done() for each in prelaunches))

    def forget_launches(self) -> None:
        """Abandon pre-launches, as if the server were killed: they are not undone."""
        for prelaunch in self.containers.lifecycle.starter._launcher._prelaunches.values():
            prelaunch.claimed.set()

    async def recover(self) -> None:
        """Recover, as a new server does with the records of the old one."""
        await self.containers.recovery.recover((await self.store.load())[1])
        await self.scope.repairs.wait_for_first_attempts(60)


@asynccontextmanager
async def rig_in(directory: Path) -> AsyncIterator[Rig]:
    """The life of a server; leaving the context kills it: containers keep running unwatched."""
    store = await Store.open(directory / "state.db")
    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            before = asyncio.all_tasks()
            yield Rig(directory, store, tasks)
            for task in asyncio.all_tasks() - before:
                task.cancel()
    finally:
        await store.close()


def record_signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of all signals that containers get from now on."""
    signals: list[int] = []
    send = MonitoredRuntime.signal

    async def recorded(runtime: MonitoredRuntime, task: Task, number: int) -> None:
        signals.append(number)
        await send(runtime, task, number)

    monkeypatch.setattr(MonitoredRuntime, "signal", recorded)
    return signals


def _script(path: Path, text: str) -> str:
    if not path.exists():
        path.write_text(text)
        path.chmod(0o755)
    return str(path)
