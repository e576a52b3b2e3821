"""The daemons, and the pods, which go through the runtime server."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.cli.plan.systemd_units import AGENT_UNIT, SERVER_UNIT
from pykubelet.cli.reset.places import Places
from pykubelet.cli.service_manager import systemctl, systemd_runs
from pykubelet.criserver.embedded import RuntimeSupervisor, SupervisorConfig, read_note
from pykubelet.criserver.processes import open_process, reference
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd
from pykubelet.linux.sockets import listener
from pykubelet.pb import runtime_v1_pb2 as pb

_ENDING: Seconds = 30.0
_POD_UID = "io.kubernetes.pod.uid"

NotePod = Callable[[str], None]
"""Called with the directory of a pod's logs."""


class AgentPart:
    """The agent's process."""

    def __init__(self, places: Places) -> None:
        self._socket = places.socket

    def find(self) -> Sequence[str]:
        pid = listener(self._socket)
        return [f"agent: process {pid}"] if pid else []

    def remove(self) -> None:
        pid = listener(self._socket)
        if not pid:
            return
        process = open_process(reference(pid))
        if process is not None:
            with process:
                if not _stopped_by_systemd(AGENT_UNIT, pid):
                    asyncio.run(_end(process, "the agent"))


class PodsPart:
    """The pods, running or ended. The runtime server is started if it does not run but has records of pods."""

    def __init__(self, places: Places, note: NotePod) -> None:
        self._places = places
        self._note = note

    def find(self) -> Sequence[str]:
        places = self._places
        if places.endpoint or listener(places.server.socket):
            # A pod that was restarted has a former sandbox.
            return list(dict.fromkeys(f"pod: {_name(pod)}" for pod in asyncio.run(self._pods())))
        return ["pods of the runtime server, which does not run"] if places.server.database.exists() else []

    def remove(self) -> None:
        places = self._places
        if places.endpoint or places.server.database.exists():
            asyncio.run(self._remove())

    async def _pods(self) -> list[pb.PodSandbox]:
        async with CriClient.connect(self._places.endpoint or f"unix://{self._places.server.socket}") as cri:
            return [pod for pod in await cri.list_pod_sandboxes() if self._is_ours(pod)]

    def _is_ours(self, pod: pb.PodSandbox) -> bool:
        """Another runtime may serve several clients: there only pods that have a directory of this agent."""
        uid = dict(pod.labels).get(_POD_UID, "")
        return not self._places.endpoint or bool(uid and (self._places.root / "pods" / uid).is_dir())

    async def _remove(self) -> None:
        places = self._places
        supervisor = RuntimeSupervisor(SupervisorConfig(places.server, places.server_file), SystemClock())
        if not places.endpoint and not listener(places.server.socket):
            await supervisor.start()
        failures: list[str] = []
        try:
            async with CriClient.connect(places.endpoint or f"unix://{places.server.socket}") as cri:
                for pod in await self._pods():
                    try:
                        self._note(f"{pod.metadata.namespace}_{pod.metadata.name}_{pod.metadata.uid}")
                        await cri.stop_pod_sandbox(SandboxID(pod.id))
                        await cri.remove_pod_sandbox(SandboxID(pod.id))
                    except PykubeletError as error:
                        failures.append(f"{_name(pod)}: {error}")
        finally:
            supervisor.close()
        if failures:
            raise Transient("; ".join(failures))


class ServerPart:
    """The process of pykubelet's own runtime server."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def find(self) -> Sequence[str]:
        note = None if self._places.endpoint else read_note(self._places.server.run)
        process = open_process(note.process) if note else None
        if process is None:
            return []
        with process:
            return [f"runtime server: process {process.pid}"]

    def remove(self) -> None:
        note = None if self._places.endpoint else read_note(self._places.server.run)
        process = open_process(note.process) if note else None
        if process is not None:
            with process:
                if not _stopped_by_systemd(SERVER_UNIT, process.pid):
                    asyncio.run(_end(process, "the runtime server"))


def _stopped_by_systemd(unit: str, pid: int) -> bool:
    """Stop the unit if the process belongs to it: systemd would start the process again. Returns whether it did."""
    if not systemd_runs() or not any(unit in member.path.split("/") for member in procfs.cgroups(pid) or ()):
        return False
    systemctl("stop", unit)
    return True


async def _end(process: PidFd, what: str) -> None:
    try:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(_ENDING):
            await process.wait()
    except NotFound:
        return
    except TimeoutError as error:
        raise Transient(
            f"{what} (process {process.pid}) does not end after SIGTERM; kill it, then try again"
        ) from error


def _name(pod: pb.PodSandbox) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
