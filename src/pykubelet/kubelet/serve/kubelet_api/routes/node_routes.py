"""Routes about the node itself, for administrators: configuration, flags, status page and log files."""

import platform
from collections.abc import Callable, Sequence

import yaml
from aiohttp import web

import pykubelet
from pykubelet.base.clock import Clock
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import EffectiveConfig, KubeletApiServerConfig
from pykubelet.kubelet.serve.kubelet_api.plan.zpages import (
    JSON,
    TEXT,
    Facts,
    flags_object,
    flags_text,
    roots,
    status_object,
    status_text,
    wanted_form,
)
from pykubelet.kubelet.serve.kubelet_api.routes.disabled import disabled_handler
from pykubelet.kubelet.serve.kubelet_api.routes.journal_query import LogQueries
from pykubelet.kubelet.serve.kubelet_api.routes.node_logs import NodeLogs


class NodeRoutes:
    """Handlers of the routes about the node."""

    def __init__(self, config: KubeletApiServerConfig, effective: EffectiveConfig, *, clock: Clock) -> None:
        self._config = config
        self._effective = effective
        self._clock = clock
        self._logs = NodeLogs(config.node_logs_dir)
        self._started = clock.now()

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        logs = disabled_handler("logs endpoint is disabled.")
        if self._config.system_log_handler:
            logs = LogQueries(self._logs).handle if self._config.system_log_query else self._logs.handle
        return [
            web.get("/configz", self._configz),
            web.get("/statusz", self._statusz),
            web.get("/flagz", self._flagz),
            web.get("/logs/", logs),
            web.get("/logs/{path:.+}", logs),
        ]

    async def _configz(self, _: web.Request) -> web.Response:
        return json_response({"kubeletconfig": self._effective.configuration()})

    async def _statusz(self, request: web.Request) -> web.Response:
        served = [route.resource.canonical for route in request.app.router.routes() if route.resource]
        now = self._clock.now()
        language = f"python{platform.python_version()}"
        facts = Facts(self._started, now, pykubelet.KUBERNETES_VERSION, language, roots(served))
        return _page(request, "Statusz", lambda: status_text(facts), lambda: status_object(facts))

    async def _flagz(self, request: web.Request) -> web.Response:
        flags = self._effective.flags
        return _page(request, "Flagz", lambda: flags_text(flags), lambda: flags_object(flags))


def _page(
    request: web.Request, kind: str, text: Callable[[], str], value: Callable[[], dict[str, object]]
) -> web.Response:
    form = wanted_form(request.headers.get("Accept", ""), kind)
    if form is None:
        return web.Response(status=406, text="not acceptable: use text/plain, or JSON or YAML with g=config.k8s.io\n")
    if form == TEXT:
        return web.Response(text=text(), content_type=TEXT, charset="utf-8")
    if form == JSON:
        return json_response(value())
    return web.Response(text=yaml.safe_dump(value()), content_type=form)
