"""Routes of the local API below ``/pykubelet/v1``: what the Kubernetes API has no objects or verbs for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web
from msgspec.structs import asdict

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.files.state_files import damaged_files
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.plan.query import integer
from pykubelet.kubelet.serve.common.plan.restart_refusal import check_alive, check_restart
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck
from pykubelet.kubelet.serve.local_api.local_interfaces import AgentView
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.node_view import ApplyRequest
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.models.core_v1 import Pod

_BASE: Final = "/pykubelet/v1"
_NAMED: Final = "{namespace}/{name}"
_MAX_DIGITS: Final = 10
"""A grace period has fewer digits, in seconds."""


class AgentRoutes:
    """Handlers of the agent's own paths."""

    def __init__(
        self,
        *,
        pods: PodsView,
        agent: AgentView,
        checks: Mapping[str, HealthCheck],
        usage: Callable[[Seconds | None], Awaitable[Summary]],
    ) -> None:
        self._pods = pods
        self._agent = agent
        self._checks = checks
        self._measure_usage = usage

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return [
            web.get(f"{_BASE}/timeline/{_NAMED}", self._timeline),
            web.get(f"{_BASE}/explain/{_NAMED}", self._explain),
            web.get(f"{_BASE}/restarts/{_NAMED}", self._restarts),
            web.post(f"{_BASE}/restart/{_NAMED}", self._restart),
            web.post(f"{_BASE}/retry/{_NAMED}", self._retry),
            web.post(f"{_BASE}/stop/{{uid}}", self._stop),
            web.post(f"{_BASE}/apply", self._apply),
            web.get(f"{_BASE}/problems", self._problems),
            web.get(f"{_BASE}/images", self._images),
            web.get(f"{_BASE}/pulls", self._pulls),
            web.get(f"{_BASE}/objects", self._objects),
            web.get(f"{_BASE}/manifests", self._manifests),
            web.get(f"{_BASE}/node", self._node_view),
            web.get(f"{_BASE}/usage", self._usage),
            web.get(f"{_BASE}/config", self._configuration),
            web.get(f"{_BASE}/version", self._version),
            web.get(f"{_BASE}/healthz", self._healthz),
            web.get(f"{_BASE}/damaged", self._damaged),
        ]

    async def _timeline(self, request: web.Request) -> web.Response:
        view = self._agent.history.timeline(self._uid(request))
        if view is None:
            raise NotFound(f"no start recorded for pod {_name(request)}")
        return json_response(view)

    async def _explain(self, request: web.Request) -> web.Response:
        view = self._agent.explain(self._uid(request))
        if view is None:
            raise NotFound(f"pod {_name(request)} not found")
        return json_response(view)

    async def _restarts(self, request: web.Request) -> web.Response:
        return json_response({"items": self._agent.history.ends(self._uid(request))})

    async def _restart(self, request: web.Request) -> web.Response:
        pod, container = self._pod(request), request.query.get("container", "")
        check_restart(pod, container)
        await self._agent.requests.restart(ref_of(pod).uid, container)
        return json_response({"uid": ref_of(pod).uid}, 202)

    async def _retry(self, request: web.Request) -> web.Response:
        pod = self._pod(request)
        check_alive(pod)
        await self._agent.requests.retry(ref_of(pod).uid)
        return json_response({"uid": ref_of(pod).uid}, 202)

    async def _stop(self, request: web.Request) -> web.Response:
        """Shorten the termination of a pod; by uid, because a new version of the pod may have its name."""
        uid, text = PodUID(request.match_info["uid"]), request.query.get("gracePeriodSeconds", "")
        if not (text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS):
            raise Invalid(f"gracePeriodSeconds={text!r} is not a number of seconds, for example 5")
        if self._pods.get(uid) is None:
            raise NotFound(f"no pod has the uid {uid}")
        self._agent.requests.stop(uid, int(text))
        return json_response({"uid": uid}, 202)

    async def _apply(self, request: web.Request) -> web.Response:
        """Create or change objects in the manifest directory. Its limit is that of every body, 64 KiB."""
        try:
            wanted = decode_json(await request.read(), ApplyRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"the request is no list of documents to apply: {error}") from error
        return json_response(await self._agent.manifests.apply(wanted))

    async def _problems(self, _: web.Request) -> web.Response:
        return json_response({"items": self._agent.problems()})

    async def _images(self, _: web.Request) -> web.Response:
        return json_response({"items": await self._agent.images.images()})

    async def _pulls(self, _: web.Request) -> web.Response:
        return json_response({"items": await self._agent.images.pulls()})

    async def _objects(self, _: web.Request) -> web.Response:
        return json_response({"items": self._agent.manifests.object_views()})

    async def _manifests(self, _: web.Request) -> web.Response:
        return json_response(self._agent.manifests.files())

    async def _node_view(self, _: web.Request) -> web.Response:
        return json_response(self._agent.node.view())

    async def _configuration(self, _: web.Request) -> web.Response:
        return json_response(self._agent.configuration())

    async def _usage(self, request: web.Request) -> web.Response:
        max_age = integer(request.query, "maxAgeSeconds", lowest=1)
        return json_response(await self._measure_usage(max_age))

    async def _version(self, _: web.Request) -> web.Response:
        return json_response(self._agent.node.version())

    async def _damaged(self, _: web.Request) -> web.Response:
        return json_response({"items": [asdict(each) for each in damaged_files()]})

    async def _healthz(self, _: web.Request) -> web.Response:
        faults = {name: check() for name, check in self._checks.items()}
        healthy = not any(faults.values())
        checks = [{"name": name, "ok": fault is None, "message": fault or ""} for name, fault in faults.items()]
        return json_response({"healthy": healthy, "checks": checks}, 200 if healthy else 503)

    def _uid(self, request: web.Request) -> PodUID:
        return ref_of(self._pod(request)).uid

    def _pod(self, request: web.Request) -> Pod:
        pod = self._pods.find(request.match_info["namespace"], request.match_info["name"])
        if pod is None:
            raise NotFound(f"pod {_name(request)} not found")
        return pod


def _name(request: web.Request) -> str:
    return f"{request.match_info['namespace']}/{request.match_info['name']}"
