"""Read-only routes, served on both ports: health, pods, usage and metrics."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from aiohttp import web

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.exposition import CONTENT_TYPE
from pykubelet.base.units import KIB
from pykubelet.kubelet.serve.common.health import report_checks
from pykubelet.kubelet.serve.common.plan.query import boolean
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import AgentMetrics, StatsSource
from pykubelet.kubelet.serve.kubelet_api.routes.health_slis import HealthSlis
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_PIECE: Final = 64 * KIB


class InfoRoutes:
    """Handlers of the read-only routes."""

    def __init__(
        self, *, pods: PodsView, stats: StatsSource, checks: Mapping[str, HealthCheck], metrics: AgentMetrics
    ) -> None:
        self._view = pods
        self._stats = stats
        self._checks = checks
        self._agent_metrics = metrics
        self._slis = HealthSlis()

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/healthz", self._healthz),
            web.get("/healthz/{name}", self._healthz_one),
            web.get("/pods", self._pods),
            web.get("/pods/", self._pods),
            web.get("/stats/summary", self._summary),
            web.get("/metrics", self._metrics),
            web.get("/metrics/probes", self._probe_metrics),
            web.get("/metrics/cadvisor", self._cadvisor),
            web.get("/metrics/resource", self._resource),
            web.get("/metrics/slis", self._sli_metrics),
        ]

    async def _healthz(self, request: web.Request) -> web.Response:
        self._slis.observe({name: check() is None for name, check in self._checks.items()})
        return report_checks(self._checks, verbose="verbose" in request.query)

    async def _healthz_one(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._checks:
            raise NotFound(f"no health check {name!r}; available: {', '.join(self._checks)}")
        return report_checks({name: self._checks[name]}, verbose=False)

    async def _pods(self, _: web.Request) -> web.Response:
        return pod_list(self._view.iterate())

    async def _summary(self, request: web.Request) -> web.Response:
        only = boolean(request.query, "only_cpu_and_memory")
        return json_response(await self._stats.summary(only_cpu_and_memory=only))

    async def _metrics(self, _: web.Request) -> web.Response:
        disks = b""
        try:
            found = await self._stats.summary(rates=False)
            disks = self._agent_metrics.usage_texts.disks(found)
        except PykubeletError as error:
            _log.warning("metrics: reading disk usage failed", extra={"error": str(error)})
        return _text(self._agent_metrics.render() + disks)

    async def _probe_metrics(self, _: web.Request) -> web.Response:
        return _text(self._agent_metrics.render_probes())

    async def _sli_metrics(self, _: web.Request) -> web.Response:
        return _text(self._slis.render())

    async def _cadvisor(self, _: web.Request) -> web.Response:
        found = await self._stats.readings()
        # The text of a hundred pods is a megabyte: it is built in a thread, off the event loop.
        return _text(await blocking.call("metrics", self._agent_metrics.usage_texts.cadvisor, found))

    async def _resource(self, _: web.Request) -> web.Response:
        try:
            found = await self._stats.readings(full=False)
        except PykubeletError as error:
            _log.warning("metrics: reading resource usage failed", extra={"error": str(error)})
            return _text(self._agent_metrics.usage_texts.resource(None))
        return _text(self._agent_metrics.usage_texts.resource(found))


def pod_list(pods: Iterable[Pod]) -> web.Response:
    """Return the pods as a PodList. A pod is taken and encoded when the client has read those before it."""
    return web.Response(body=_pod_list(pods), content_type="application/json")


async def _pod_list(pods: Iterable[Pod]) -> AsyncIterator[bytes]:
    """Yield the text in pieces: a client that does not read has the text of one pod in memory, not that of all."""
    waiting = bytearray(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[')
    separator = b""
    for pod in pods:
        waiting += separator + codec.encode(pod)
        separator = b","
        while len(waiting) >= _PIECE:
            piece = bytes(waiting[:_PIECE])
            del waiting[:_PIECE]
            yield piece
            await asyncio.sleep(0)
    yield bytes(waiting) + b"]}"


def _text(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
