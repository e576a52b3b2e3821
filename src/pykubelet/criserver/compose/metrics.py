"""Connects the metrics with what they measure. Imported only if the configuration has an address for them."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from google.protobuf.message import Message
from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.compose.images import ImageComponents
from pykubelet.criserver.compose.pods import Pods
from pykubelet.criserver.config import MetricsAddress, Settings
from pykubelet.criserver.metrics.metrics_endpoint import MetricsServer
from pykubelet.criserver.metrics.server_metrics import ServerMetrics
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.runtimes import RuntimeHandlers
from pykubelet.criserver.server.call_table import Observer
from pykubelet.criserver.types import ContainerPhase, SandboxID, SandboxPhase

_PREFIX = "pykubelet_criserver_"


class CallObserver(Observer):
    """Records calls with the runtime handler of what they are about."""

    def __init__(self, *, metrics: ServerMetrics, pods: Pods, handlers: RuntimeHandlers, clock: Clock) -> None:
        self._clock = clock
        self._metrics = metrics
        self._pods = pods
        self._handlers = handlers

    def begin(self, method: str, request: Message) -> Callable[[str], None]:
        """Take the begin of a call: the handler is looked up now, since the call may remove its object."""
        return partial(self._end, method, self._handler(request), self._clock.monotonic())

    def _end(self, method: str, handler: str, begun: float, code: str) -> None:
        self._metrics.call(method, handler, code, self._clock.monotonic() - begun)

    def _handler(self, request: Message) -> str:
        sandbox = SandboxID(getattr(request, "pod_sandbox_id", ""))
        identity = getattr(request, "container_id", "")
        container = self._pods.containers.table.find(identity) if identity else None
        if container is not None:
            sandbox = container.record.sandbox_id
        found = self._pods.sandboxes.table.lookup(sandbox) if sandbox else None
        return found.record.handler if found is not None else self._handlers.default


class Figures(Struct, frozen=True, kw_only=True):
    """Figures of the moment of a scrape."""

    settings: Settings
    pods: Pods
    images: ImageComponents
    repairs: Repairs

    async def read(self) -> dict[tuple[str, str], float]:
        """Read all figures, by name and help text; those that are unknown now are left out."""
        pulls = ("containerd_cri_sandboxed_in_progress_image_pulls_total", "Pulls that are running.")
        found: dict[tuple[str, str], float] = {pulls: len(self.images.images.running_pulls)}

        def add(name: str, text: str, value: float) -> None:
            found[(f"{_PREFIX}{name}", text)] = value

        containers = [each.record.phase for each in self.pods.containers.table]
        sandboxes = [each.record.phase for each in self.pods.sandboxes.table]
        add("sandboxes", "Sandboxes that have a record.", len(sandboxes))
        add("sandboxes_ready", "Sandboxes that are ready.", sandboxes.count(SandboxPhase.READY))
        add("containers", "Containers that have a record.", len(containers))
        add("containers_running", "Containers that are running.", containers.count(ContainerPhase.RUNNING))
        add("repairs", "Repairs that have not succeeded yet.", len(self.repairs.unfinished()))
        trash = self.images.trash
        with suppress(PykubeletError, OSError):
            waiting = await trash.usage()
            add("removals", "Removed file trees that wait for their deletion.", waiting.trees)
            add("removals_bytes", "Bytes of removed file trees that wait for their deletion.", waiting.bytes)
        add("removals_failing", "Removed file trees whose deletion has failed and is retried.", len(trash.undeleted()))
        with suppress(PykubeletError, OSError):
            size = await blocking.call("metrics", self._database_size)
            add("database_bytes", "Size of the database, with its log.", size)
        return found

    def _database_size(self) -> int:
        path = self.settings.database
        files = (path, path.with_name(f"{path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def metrics_server(address: MetricsAddress, metrics: ServerMetrics, figures: Figures) -> MetricsServer:
    """The server of ``/metrics``."""
    return MetricsServer(address, partial(_rendered, metrics, figures))


async def _rendered(metrics: ServerMetrics, figures: Figures) -> bytes:
    return metrics.render(await figures.read())
