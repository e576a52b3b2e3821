"""Routes of the local API with the paths of the Kubernetes API: pods, events, logs, exec, attach, port-forward."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.common.plan.query import forwarded_ports, log_options, stream_options
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.local_api import discovery
from pykubelet.kubelet.serve.local_api.local_interfaces import AgentView, EventTable
from pykubelet.kubelet.serve.local_api.selectors import EVENT_FIELDS, POD_FIELDS, field_test, label_test
from pykubelet.kubelet.serve.local_api.watch_response import Collection
from pykubelet.kubelet.serve.logs.log_response import LogSource, log_response
from pykubelet.kubelet.serve.logs.plan.log_choice import container_name, container_status
from pykubelet.kubelet.serve.streams import StreamProxy, Streams
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.models.core_v1 import Event, Pod

_POD: Final = "/api/v1/namespaces/{namespace}/pods/{name}"


class KubeRoutes:
    """Handlers of the Kubernetes API's paths."""

    def __init__(
        self, *, pods: PodsView, events: EventTable, agent: AgentView, streams: Streams, logs: LogSource, clock: Clock
    ) -> None:
        self._pods = pods
        self._events = events
        self._agent = agent
        self._streams = streams
        self._logs = logs
        self._clock = clock
        self._proxy = StreamProxy()
        self._pod_list = Collection(pods.table, "Pod")
        self._event_list = Collection(events.table, "Event")

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/api", self._static(discovery.API_VERSIONS)),
            web.get("/apis", self._static(discovery.API_GROUPS)),
            web.get("/api/v1", self._static(discovery.CORE_RESOURCES)),
            web.get("/version", self._version),
            web.get("/api/v1/pods", self._list_pods),
            web.get("/api/v1/namespaces/{namespace}/pods", self._list_pods),
            web.get(_POD, self._get_pod),
            web.get("/api/v1/events", self._list_events),
            web.get("/api/v1/namespaces/{namespace}/events", self._list_events),
            web.get("/api/v1/namespaces/{namespace}/events/{name}", self._get_event),
            web.get(f"{_POD}/log", self._read_log),
            *(method(f"{_POD}/exec", self._exec) for method in (web.get, web.post)),
            *(method(f"{_POD}/attach", self._attach) for method in (web.get, web.post)),
            *(method(f"{_POD}/portforward", self._port_forward) for method in (web.get, web.post)),
        ]

    @staticmethod
    def _static(value: object) -> Handler:
        async def handler(_: web.Request) -> web.Response:
            return json_response(value)

        return handler

    async def _version(self, _: web.Request) -> web.Response:
        version = self._agent.node.version()
        return json_response(discovery.version_info(version.kubernetes))

    # -- objects -------------------------------------------------------------------------------------------------------

    async def _list_pods(self, request: web.Request) -> web.StreamResponse:
        namespace = request.match_info.get("namespace")
        labels = label_test(request.query.get("labelSelector", ""))
        fields = field_test(request.query.get("fieldSelector", ""), POD_FIELDS)

        def matches(pod: Pod) -> bool:
            meta = pod.metadata
            return namespace in (None, meta.namespace) and labels(meta.labels) and fields(pod)

        return await self._pod_list.respond(request, matches)

    async def _list_events(self, request: web.Request) -> web.StreamResponse:
        namespace = request.match_info.get("namespace")
        fields = field_test(request.query.get("fieldSelector", ""), EVENT_FIELDS)
        labels = label_test(request.query.get("labelSelector", ""))

        def matches(event: Event) -> bool:
            meta = event.metadata
            return namespace in (None, meta.namespace) and labels(meta.labels) and fields(event)

        self._events.expire()
        return await self._event_list.respond(request, matches, self._agent.history.older_events)

    async def _get_pod(self, request: web.Request) -> web.Response:
        return json_response(self._pod(request))

    async def _get_event(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        event = self._events.table.get(f"{namespace}/{name}")
        if event is None:
            raise NotFound(f'events "{name}" not found')
        return json_response(event)

    def _pod(self, request: web.Request) -> Pod:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        pod = self._pods.find(namespace, name)
        if pod is None:
            raise NotFound(f'pods "{name}" not found in namespace "{namespace}"')
        return pod

    # -- logs ----------------------------------------------------------------------------------------------------------

    async def _read_log(self, request: web.Request) -> web.StreamResponse:
        options = log_options(request.query, self._clock.now())
        pod = self._pod(request)
        chosen = replace(options, container=container_name(pod, options.container))
        return await log_response(request, pod, chosen, self._logs)

    # -- exec, attach, port-forward ------------------------------------------------------------------------------------

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        options = stream_options(request.query, request.query.getall("command", []), attach=False)
        container = self._running(self._pod(request), options.container)
        return await self._proxy.command(request, lambda: self._streams.exec_url(container, options), options.streams)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        options = stream_options(request.query, (), attach=True)
        container = self._running(self._pod(request), options.container)
        return await self._proxy.command(request, lambda: self._streams.attach_url(container, options), options.streams)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        ports = forwarded_ports(request.query.getall("ports", []))
        uid = PodUID(self._pod(request).metadata.uid)
        return await self._proxy.port_forward(request, lambda: self._streams.port_forward_url(uid, ports))

    @staticmethod
    def _running(pod: Pod, wanted: str) -> ContainerID:
        name = container_name(pod, wanted)
        status = container_status(pod, name)
        if status is None or status.state is None or status.state.running is None:
            raise Invalid(f'container "{name}" in pod "{pod.metadata.name}" is not running')
        return ContainerID(status.container_id.partition("://")[2])
