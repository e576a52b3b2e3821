"""Routes into pods: logs, exec, attach, port-forward, run and checkpoint. Served with the access check only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from pykubelet.base.clock import utc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Permanent, PykubeletError
from pykubelet.kubelet.serve.common.plan.query import forwarded_ports, integer, log_options
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import AgentMetrics, NodeRuntime
from pykubelet.kubelet.serve.kubelet_api.plan.targets import (
    check_container,
    command_options,
    running_container,
)
from pykubelet.kubelet.serve.kubelet_api.routes.info_routes import pod_list
from pykubelet.kubelet.serve.logs.log_response import LogSource, log_response
from pykubelet.kubelet.serve.streams import StreamProxy, check_upgrade
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.models.core_v1 import Pod

_POD: Final = "{namespace}/{pod}"
_UID: Final = f"{_POD}/{{uid}}"
_NEWEST: Final = frozenset({"v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"})
_CONTAINER: Final = "{container}"


class PodRoutes:
    """Handlers of the routes into pods."""

    def __init__(
        self,
        *,
        pods: PodsView,
        runtime: NodeRuntime,
        telemetry: Telemetry[AgentMetrics],
        logs: LogSource,
        checkpoints: Path,
    ) -> None:
        self._pods = pods
        self._runtime = runtime
        self._telemetry = telemetry
        self._logs = logs
        self._checkpoints = checkpoints
        self._proxy = StreamProxy()

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes; a uid may precede the container."""
        both = (web.get, web.post)
        return [
            web.get(f"/containerLogs/{_POD}/{_CONTAINER}", self._log),
            web.get("/runningpods/", self._running_pods),
            web.get("/runningpods", self._running_pods),
            web.post(f"/checkpoint/{_POD}/{_CONTAINER}", self._checkpoint),
            *(web.post(f"/run/{part}/{_CONTAINER}", self._run) for part in (_POD, _UID)),
            *(method(f"/exec/{part}/{_CONTAINER}", self._exec) for part in (_POD, _UID) for method in both),
            *(method(f"/attach/{part}/{_CONTAINER}", self._attach) for part in (_POD, _UID) for method in both),
            *(method(f"/portForward/{part}", self._port_forward) for part in (_POD, _UID) for method in both),
        ]

    async def _log(self, request: web.Request) -> web.StreamResponse:
        container = request.match_info["container"]
        query = {**request.query, "container": container}
        # ``tail`` is the old name of tailLines; ``all`` means no limit.
        if tail := query.pop("tail", ""):
            query["tailLines"] = tail
            if tail == "all":
                del query["tailLines"]
        options = log_options(query, self._telemetry.clock.now())
        pod = self._pod(request)
        check_container(pod, container)
        return await log_response(request, pod, options, self._logs)

    async def _running_pods(self, _: web.Request) -> web.Response:
        return pod_list(await self._runtime.running_pods())

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        container, runtime = request.match_info["container"], self._runtime
        options = command_options(request.query, container, request.query.getall("command", []))
        target = running_container(self._pod(request), container)
        self._count(request, "exec")
        return await self._proxy.command(request, lambda: runtime.exec_url(target, options), options.streams)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        container, runtime = request.match_info["container"], self._runtime
        options = command_options(request.query, container, None)
        target = running_container(self._pod(request), container)
        self._count(request, "attach")
        return await self._proxy.command(request, lambda: runtime.attach_url(target, options), options.streams)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        ports, runtime = forwarded_ports(request.query.getall("port", [])), self._runtime
        uid = ref_of(self._pod(request)).uid
        self._count(request, "portforward")
        return await self._proxy.port_forward(request, lambda: runtime.port_forward_url(uid, ports))

    async def _run(self, request: web.Request) -> web.StreamResponse:
        """Run ``cmd``, whose words are separated by blanks without quoting, as in the Go kubelet."""
        target = running_container(self._pod(request), request.match_info["container"])
        command = request.query.get("cmd", "").split(" ")
        code, output = await self._runtime.run(target, command)
        if code != 0:
            shown = output[-2048:].decode(errors="replace")
            raise Permanent(f"error executing command in container: exit code {code}: {shown}")
        return web.Response(body=output, content_type="text/plain")

    async def _checkpoint(self, request: web.Request) -> web.StreamResponse:
        """Write a checkpoint archive named after container and time (KEP-2008); the client has to remove it."""
        pod, name = self._pod(request), request.match_info["container"]
        target = running_container(pod, name)
        timeout = integer(request.query, "timeout") or 0
        moment = utc(self._telemetry.clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
        archive = self._checkpoints / f"checkpoint-{ref_of(pod).full_name}-{name}-{moment}.tar"
        await blocking.call("checkpoints", self._checkpoints.mkdir, 0o700, True, True)
        try:
            await self._runtime.checkpoint(target, archive, timeout)
        except PykubeletError as error:
            raise Permanent(f"checkpointing of {ref_of(pod)}/{name} failed ({error})") from error
        return json_response({"items": [str(archive)]})

    def _count(self, request: web.Request, subresource: str) -> None:
        """Count sessions over WebSocket. Invalid: the request is not an upgrade."""
        check_upgrade(request)
        offered = {word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",")}
        if offered & _NEWEST:
            self._telemetry.metrics.http.websocket_streamed(subresource)

    def _pod(self, request: web.Request) -> Pod:
        match = request.match_info
        pod = self._pods.find(match["namespace"], match["pod"])
        if pod is None or match.get("uid", pod.metadata.uid) != pod.metadata.uid:
            raise NotFound(f'pod "{match["pod"]}" does not exist')
        return pod
