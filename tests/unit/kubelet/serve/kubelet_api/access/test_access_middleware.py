"""Access to every route by user, whatever the spelling of its path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from aiohttp import ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from pykubelet.base.errors import Transient
from pykubelet.kubelet.serve.kubelet_api import AuthConfig
from pykubelet.kubelet.serve.kubelet_api.access.access_middleware import access_middleware
from pykubelet.kubelet.serve.kubelet_api.access.authentication import Authenticator
from pykubelet.kubelet.serve.kubelet_api.access.authorization import Authorizer
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import RequestAttributes, User
from pykubelet.kubelet.serve.kubelet_api.routes.debug_routes import DebugRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.info_routes import InfoRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.node_routes import NodeRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.pod_routes import PodRoutes
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.kubelet.serve.logs.log_response import LogSource
from pykubelet.models.authentication_v1 import UserInfo
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.free_ports import free_port
from tests.unit.kubelet.report.pods import pod
from tests.unit.kubelet.serve.kubelet_api.world import Client, NodeWorld, Pki, client_of, running_server
from tests.unit.kubelet.serve.local_api.world import running
from tests.unit.kubelet.serve.logs.records import raw

_PROXY: Final = ("proxy",)


class UnreachableAuthenticator(Authenticator):
    """An authenticator whose API server is unavailable."""

    def __init__(self) -> None: ...

    async def authenticate(self, request: web.Request) -> User | None:
        raise Transient("the API server is unavailable")


async def test_a_client_that_cannot_be_authenticated_gets_401() -> None:
    served: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        served.append(request.path)
        return web.Response()

    authorizer = Authorizer(config=AuthConfig(always_allow=True), node_name="n", reviews=None, clock=VirtualClock())
    app = web.Application(middlewares=[access_middleware(UnreachableAuthenticator(), authorizer, lambda _: None)])
    app.router.add_get("/pods", handler)
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.get(server.make_url("/pods")) as response,
    ):
        assert (response.status, await response.text()) == (401, "Unauthorized")
    assert not served


@dataclass(frozen=True, slots=True)
class Case:
    """A request that a route answers, with the attributes to authorize."""

    method: str
    path: str
    verb: str
    subresources: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


_STREAMS: Final[Mapping[str, str]] = {
    "/exec/{namespace}/{pod}/{container}": "/exec/ns/web/app?command=ls&output=1",
    "/exec/{namespace}/{pod}/{uid}/{container}": "/exec/ns/web/uid-1/app?command=ls&output=1",
    "/attach/{namespace}/{pod}/{container}": "/attach/ns/web/app?output=1",
    "/attach/{namespace}/{pod}/{uid}/{container}": "/attach/ns/web/uid-1/app?output=1",
    "/portForward/{namespace}/{pod}": "/portForward/ns/web",
    "/portForward/{namespace}/{pod}/{uid}": "/portForward/ns/web/uid-1",
}
ROUTES: Final[Mapping[tuple[str, str], Case]] = {
    ("GET", "/healthz"): Case("GET", "/healthz", "get", ("healthz", "proxy")),
    ("GET", "/healthz/{name}"): Case("GET", "/healthz/ping", "get", ("healthz", "proxy")),
    ("GET", "/pods"): Case("GET", "/pods", "get", ("pods", "proxy")),
    ("GET", "/pods/"): Case("GET", "/pods/", "get", ("pods", "proxy")),
    ("GET", "/runningpods"): Case("GET", "/runningpods", "get", ("pods", "proxy")),
    ("GET", "/runningpods/"): Case("GET", "/runningpods/", "get", ("pods", "proxy")),
    ("GET", "/stats/summary"): Case("GET", "/stats/summary", "get", ("stats",)),
    ("GET", "/metrics"): Case("GET", "/metrics", "get", ("metrics",)),
    ("GET", "/metrics/probes"): Case("GET", "/metrics/probes", "get", ("metrics",)),
    ("GET", "/metrics/cadvisor"): Case("GET", "/metrics/cadvisor", "get", ("metrics",)),
    ("GET", "/metrics/resource"): Case("GET", "/metrics/resource", "get", ("metrics",)),
    ("GET", "/metrics/slis"): Case("GET", "/metrics/slis", "get", ("metrics",)),
    ("GET", "/configz"): Case("GET", "/configz", "get", ("configz", "proxy")),
    ("GET", "/statusz"): Case("GET", "/statusz", "get", ("statusz",)),
    ("GET", "/flagz"): Case("GET", "/flagz", "get", ("configz",)),
    ("GET", "/logs/"): Case("GET", "/logs/", "get", ("log",)),
    ("GET", "/logs/{path}"): Case("GET", "/logs/syslog", "get", ("log",)),
    ("GET", "/debug/pprof/{name}"): Case("GET", "/debug/pprof/cmdline", "get", _PROXY),
    ("*", "/debug/flags/v"): Case("PUT", "/debug/flags/v", "update", _PROXY),
    ("GET", "/containerLogs/{namespace}/{pod}/{container}"): Case("GET", "/containerLogs/ns/web/app", "get", _PROXY),
    ("POST", "/checkpoint/{namespace}/{pod}/{container}"): Case(
        "POST", "/checkpoint/ns/web/app", "create", ("checkpoint",)
    ),
    ("POST", "/run/{namespace}/{pod}/{container}"): Case("POST", "/run/ns/web/app?cmd=ls", "create", _PROXY),
    ("POST", "/run/{namespace}/{pod}/{uid}/{container}"): Case(
        "POST", "/run/ns/web/uid-1/app?cmd=ls", "create", _PROXY
    ),
    **{
        (method, pattern): Case(method, path, "create", _PROXY)
        for pattern, path in _STREAMS.items()
        for method in ("GET", "POST")
    },
}
"""By method and pattern: all that the server serves."""


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def world(tmp_path: Path, pki: Pki) -> NodeWorld:
    world = NodeWorld(tmp_path, pki)
    world.set(running(), pod())
    world.change(auth=AuthConfig(token_ttl=0.0, allowed_ttl=0.0, denied_ttl=0.0))
    world.reviews.users["token"] = UserInfo(username="client")
    (world.logs / "0.log").write_bytes(raw("one"))
    (world.node_logs / "syslog").write_text("a line\n")
    return world


def grant(world: NodeWorld, *rights: tuple[str, str]) -> None:
    world.reviews.rights = {("client", verb, subresource) for verb, subresource in rights}


async def ask(client: Client, method: str, path: str, token: str = "token") -> tuple[int, str]:
    """Return status and text for a path, which is sent unchanged."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = URL(client.url + path, encoded=True)
    async with client.session.request(method, url, ssl=client.context, headers=headers) as response:
        return response.status, await _text(response)


async def _text(response: ClientResponse) -> str:
    return await response.text() if response.status != 101 else ""


def test_every_route_of_the_server_is_in_the_table(world: NodeWorld) -> None:
    config, deps = world.server_config, world.server_deps
    logs = LogSource(config.pod_logs_dir, deps.pods, DirWatcher(VirtualClock()))
    parts = (
        InfoRoutes(pods=deps.pods, stats=deps.stats, checks=deps.checks, metrics=deps.telemetry.metrics),
        PodRoutes(
            pods=deps.pods,
            runtime=deps.runtime,
            telemetry=deps.telemetry,
            logs=logs,
            checkpoints=config.checkpoints_dir,
        ),
        NodeRoutes(config, deps.effective, clock=deps.telemetry.clock),
        DebugRoutes(config),
    )
    app = web.Application()
    for part in parts:
        app.add_routes(part.routes())
    served = {(r.method, r.resource.canonical) for r in app.router.routes() if r.resource and r.method != "HEAD"}
    assert served == set(ROUTES)


async def test_route_needs_one_of_its_subresources_and_its_verb(world: NodeWorld) -> None:
    others = {"proxy", "metrics", "stats", "log", "spec", "checkpoint", "pods", "healthz", "configz", "statusz"}
    verbs = {"get", "create", "update", "patch", "delete"}
    async with running_server(world) as server, client_of(world, server) as client:
        for case in ROUTES.values():
            for granted in case.subresources:
                grant(world, (case.verb, granted))
                status, text = await ask(client, case.method, case.path)
                assert status not in (401, 403), f"{case} with {granted}: {text}"
            needed = {(case.verb, subresource) for subresource in case.subresources}
            grant(world, *({(verb, other) for verb in verbs for other in others} - needed))
            status, text = await ask(client, case.method, case.path)
            assert (status, text.split(" ")[0]) == (403, "Forbidden"), case
            assert f"verb={case.verb}" in text and f"[{' '.join(case.subresources)}]" in text, case


async def test_head_of_a_read_needs_what_the_read_needs(world: NodeWorld) -> None:
    async with running_server(world) as server, client_of(world, server) as client:
        for case in (case for case in ROUTES.values() if case.method == "GET"):
            grant(world, (case.verb, case.subresources[0]))
            assert (await ask(client, "HEAD", case.path))[0] not in (401, 403), case
            grant(world)
            assert (await ask(client, "HEAD", case.path))[0] == 403, case


def spellings(path: str) -> Iterator[str]:
    """Return other spellings of a path, which lenient servers treat as the same."""
    path, mark, query = path.partition("?")
    first, _, rest = path[1:].partition("/")
    below = f"/{rest}" if rest else ""
    tail = mark + query
    yield f"/%{ord(first[0]):02x}{first[1:]}{below}{tail}"
    yield "/" + "".join(f"%{ord(letter):02X}" for letter in first) + below + tail
    yield f"/{first[:-1]}%{ord(first[-1]):02X}{below}{tail}"
    yield f"//{first}{below}{tail}"
    yield f"/./{first}{below}{tail}"
    yield f"/pods/../{first}{below}{tail}"
    yield f"/metrics/%2e%2e/{first}{below}{tail}"
    yield f"/pods%2F..%2F{first}{below}{tail}"
    yield f"/{first}{below}/.{tail}"
    yield f"/{first}{below}%00{tail}"
    if rest:
        yield f"/{first}%2F{rest}{tail}"
        yield f"/{first}//{rest}{tail}"
        yield f"/{first}/./{rest}{tail}"


async def test_other_spelling_of_a_route_is_rejected_for_every_user(world: NodeWorld) -> None:
    """Rejected before any review, even for users with access to the route."""
    grant(world, *((verb, name) for verb in ("get", "create", "update") for name in ("proxy", "metrics", "log")))
    async with running_server(world) as server, client_of(world, server) as client:
        for case in ROUTES.values():
            for path in spellings(case.path):
                for token in ("token", ""):
                    status, text = await ask(client, case.method, path, token)
                    assert status == 400, f"{case.method} {path}: {status} {text}"
                    assert case.method == "HEAD" or "normal form" in text, path
    assert not world.reviews.token_reviews and not world.reviews.access_reviews
    assert not world.runtime.asked and not world.runtime.forwards and not world.runtime.commands


async def test_other_spelling_is_refused_on_the_read_only_port(world: NodeWorld) -> None:
    world.change(read_only_port=free_port())
    async with running_server(world) as server, ClientSession() as session:
        base = f"http://127.0.0.1:{server.read_only_port}"
        for path in ("/%70ods", "//pods", "/./pods", "/healthz/../pods", "/pods%00"):
            async with session.get(URL(base + path, encoded=True)) as response:
                assert response.status == 400, path


@pytest.mark.parametrize("path", ["/%65xec/ns/web/app", "/e%78ec/ns/web/app", "/exec/ns/web/app", "/exec/n%73/web/app"])
async def test_access_check_authorizes_the_matched_route(path: str) -> None:
    """The access check alone, without the rejection of other spellings in front of it."""
    asked: list[RequestAttributes] = []
    served: list[str] = []

    class RecordingAuthorizer(Authorizer):
        async def allowed(self, user: User, wanted: RequestAttributes) -> bool:
            asked.append(wanted)
            return wanted.verb == "get"

    async def handler(request: web.Request) -> web.Response:
        served.append(request.path)
        return web.Response()

    config = AuthConfig(anonymous=True)
    clock = VirtualClock()
    app = web.Application(
        middlewares=[
            access_middleware(
                Authenticator(config=config, reviews=None, clock=clock),
                RecordingAuthorizer(node_name="node-1", config=config, reviews=None, clock=clock),
                lambda _: None,
            )
        ]
    )
    app.add_routes([web.get("/exec/{namespace}/{pod}/{container}", handler)])
    async with TestServer(app) as server, ClientSession(server.make_url("/")) as session:
        url = URL(path, encoded=True)
        async with session.get(url) as response:
            assert response.status == 403
    assert asked == [RequestAttributes("create", ("proxy",))]
    assert not served
