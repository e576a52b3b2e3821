"""The kubelet API server under arbitrary request lines, over real TLS: what is authorized is what is served."""

import asyncio
import logging
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.serve.common.limits import SlotLimits
from pykubelet.kubelet.serve.common.slots import Slots
from pykubelet.kubelet.serve.kubelet_api import AuthConfig, KubeletApiServer
from pykubelet.models.authentication_v1 import UserInfo
from pykubelet.testing.wait import until
from tests.unit.kubelet.report.pods import pod
from tests.unit.kubelet.serve.kubelet_api.world import NodeWorld, Pki
from tests.unit.kubelet.serve.local_api.world import open_files, running
from tests.unit.kubelet.serve.logs.records import raw

_PROXY: Final = ("proxy",)
_PODS: Final = ("pods", "proxy")
_HEALTHZ: Final = ("healthz", "proxy")
_METRICS: Final = ("metrics",)
NEEDED: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "InfoRoutes._healthz": ("healthz", "", _HEALTHZ),
    "InfoRoutes._healthz_one": ("healthz", "", _HEALTHZ),
    "InfoRoutes._pods": ("pods", "", _PODS),
    "InfoRoutes._summary": ("stats", "", ("stats",)),
    "InfoRoutes._metrics": ("metrics", "", _METRICS),
    "InfoRoutes._probe_metrics": ("metrics", "", _METRICS),
    "InfoRoutes._cadvisor": ("metrics", "", _METRICS),
    "InfoRoutes._resource": ("metrics", "", _METRICS),
    "InfoRoutes._sli_metrics": ("metrics", "", _METRICS),
    "PodRoutes._log": ("containerLogs", "", _PROXY),
    "PodRoutes._running_pods": ("runningpods", "", _PODS),
    "PodRoutes._checkpoint": ("checkpoint", "create", ("checkpoint",)),
    "PodRoutes._run": ("run", "create", _PROXY),
    "PodRoutes._exec": ("exec", "create", _PROXY),
    "PodRoutes._attach": ("attach", "create", _PROXY),
    "PodRoutes._port_forward": ("portForward", "create", _PROXY),
    "NodeRoutes._configz": ("configz", "", ("configz", "proxy")),
    "NodeRoutes._statusz": ("statusz", "", ("statusz",)),
    "NodeRoutes._flagz": ("flagz", "", ("configz",)),
    "NodeLogs.handle": ("logs", "", ("log",)),
    "DebugRoutes._profile": ("debug", "", _PROXY),
    "DebugRoutes._verbosity": ("debug", "", _PROXY),
}
"""For each handler: the first segment of its path, the verb (empty: that of the method), and the subresources."""
VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class SeenRequest:
    """The authorizations and handler calls of one request."""

    served: list[tuple[str, str]] = field(default_factory=list)
    """The handlers that ran, with the methods they were called for."""
    defects: list[str] = field(default_factory=list)


class Defects(logging.Handler):
    """Collects errors that are logged as defects."""

    def __init__(self, seen: SeenRequest) -> None:
        super().__init__(logging.ERROR)
        self.seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.defects.append(f"{record.getMessage()}: {record.exc_info}")


class Rig:
    """A server that runs while requests are made, one after another."""

    def __init__(self, base: Path) -> None:
        self.runner = asyncio.Runner()
        self.seen = SeenRequest()
        self.world = world = self.runner.run(self._world(base))
        self.context = ssl.create_default_context(cafile=str(world.authority.ca))
        self.server = KubeletApiServer(world.server_config, world.server_deps)
        self.task = self.runner.run(self._start())

    @staticmethod
    async def _world(base: Path) -> NodeWorld:
        world = NodeWorld(base, Pki(base / "pki"))
        world.set(running(), pod())
        (world.logs / "0.log").write_bytes(raw("one"))
        (world.node_logs / "a.log").write_text("a line\n")
        # Without caching, so that each request is authorized separately.
        auth = AuthConfig(token_ttl=0.0, allowed_ttl=0.0, denied_ttl=0.0)
        slots = SlotLimits(short=8, short_per_user=8, streams=8, streams_per_user=8, deadline=2.0)
        world.change(auth=auth, slots=slots)
        world.reviews.users = {name: UserInfo(username=name) for name in ("client", "admin")}
        return world

    async def _start(self) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self.server.run())
        await self.server.serving.wait()
        return task

    def close(self) -> None:
        self.task.cancel()
        self.runner.run(_ended(self.task))
        self.runner.close()

    def ask(self, request: bytes, rights: frozenset[tuple[str, str]]) -> bytes:
        """Send a request; returns the response. ``seen`` has its authorizations and handler calls."""
        self.seen.served.clear()
        self.seen.defects.clear()
        reviews = self.world.reviews
        reviews.token_reviews.clear()
        reviews.access_reviews.clear()
        reviews.rights = {("client", *right) for right in rights} | {("admin", "get", "proxy")}
        return self.runner.run(self._exchange(request))

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=self.context)
        try:
            async with asyncio.timeout(20):
                writer.write(request)
                try:
                    return await reader.read(4096)
                except ConnectionError:
                    return b""
        finally:
            writer.transport.abort()
            writer.close()

    def asked(self) -> set[tuple[str, str]]:
        """The verbs and subresources of the SubjectAccessReviews."""
        wanted = [review.spec.resource_attributes for review in self.world.reviews.access_reviews]
        return {(each.verb, each.subresource) for each in wanted if each is not None}


@pytest.fixture(autouse=True)
def settled(rig: Rig) -> Iterator[None]:
    """The server closes the last connections of a test while the loop runs."""
    before = open_files()
    yield
    rig.runner.run(until(lambda: open_files() <= before))


async def _ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait([task])


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("fuzz"))
    original = Slots._serve

    async def recorded(self: Slots, request: web.Request, handler: Handler) -> web.StreamResponse:
        # The innermost middleware: it calls the handler itself.
        if request.match_info.route.resource is not None:
            name = getattr(request.match_info.handler, "__qualname__", "")
            rig.seen.served.append((name, request.method))
        return await original(self, request, handler)

    defects = Defects(rig.seen)
    logging.getLogger().addHandler(defects)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slots, "_serve", recorded)
        yield rig
    logging.getLogger().removeHandler(defects)
    rig.close()


_PATHS: Final = (
    *("/healthz", "/healthz/ping", "/pods", "/pods/", "/runningpods/", "/stats/summary", "/metrics"),
    *("/metrics/cadvisor", "/metrics/slis", "/configz", "/statusz", "/flagz", "/logs/", "/logs/a.log"),
    *("/debug/pprof/cmdline", "/debug/flags/v", "/containerLogs/ns/web/app", "/checkpoint/ns/web/app"),
    *("/run/ns/web/app?cmd=ls", "/exec/ns/web/app?command=ls&output=1", "/attach/ns/web/uid-1/app?output=1"),
    *("/portForward/ns/web", "/nowhere", "/"),
)
_METHODS: Final = st.sampled_from(["GET", "GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "BREW", "get"])
_PIECES: Final = st.sampled_from(
    ["/", "//", "/./", "/../", "/%2e%2e/", "%2F", "%5C", "\\", ";a=b", "%00", "%", "%zz", "%25", "..", "?", "#", " "]
)
_PREFIXES: Final = st.sampled_from(["http://node", "https://127.0.0.1", "http://", "/pods/..", "//node"])
_SUBRESOURCES: Final = ("proxy", "pods", "healthz", "configz", "statusz", "stats", "metrics", "log", "checkpoint")
_RIGHTS: Final = st.one_of(
    st.just(frozenset({("get", "proxy")})),
    st.frozensets(
        st.tuples(
            st.sampled_from(["get", "create", "update", "patch", "delete", ""]),
            st.sampled_from(
                ["proxy", "pods", "healthz", "configz", "statusz", "stats", "metrics", "log", "checkpoint"]
            ),
        ),
        max_size=6,
    ),
)


@st.composite
def _targets(draw: st.DrawFn) -> bytes:
    """A mutated path of the server, or arbitrary text."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60)).replace(b"\n", b"").replace(b"\r", b"")
    path = draw(st.sampled_from(_PATHS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(path)))
        match draw(st.integers(0, 5)):
            case 0 if at < len(path):
                form = draw(st.sampled_from(["%{:02x}", "%{:02X}"]))
                path = path[:at] + form.format(ord(path[at])) + path[at + 1 :]
            case 1 if at < len(path):
                path = path[:at] + path[at].swapcase() + path[at + 1 :]
            case 2:
                path = path[:at] + draw(_PIECES) + path[at:]
            case 3:
                path = (
                    draw(st.sampled_from(["http://node", "https://127.0.0.1", "http://", "/pods/..", "//node"])) + path
                )
            case 4:
                path = path[:at] + "a" * draw(st.sampled_from([10, 300, 9000, 140_000])) + path[at:]
            case _:
                path = path[:at] + draw(st.text(max_size=2)) + path[at:]
    return path.encode("utf-8", "surrogatepass")


_HEADERS: Final = st.sampled_from(
    [
        b"",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
        b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
        b"Expect: 100-continue\r\n",
        b"X-Original-URL: /exec/ns/web/app\r\nX-HTTP-Method-Override: POST\r\nX-Forwarded-Prefix: /exec\r\n",
    ]
)


def _request(method: str, target: bytes, headers: bytes, user: str) -> bytes:
    head = method.encode() + b" " + target + b" HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer " + user.encode()
    # Upgrades have their own header; the connections of other requests close after the response.
    close = b"" if headers.startswith(b"Connection") else b"Connection: close\r\n"
    return head + b"\r\n" + headers + close + b"Content-Length: 0\r\n\r\n"


@given(_METHODS, _targets(), _HEADERS, _RIGHTS)
def test_request_that_is_served_is_the_one_that_was_authorized(
    rig: Rig, method: str, target: bytes, headers: bytes, rights: frozenset[tuple[str, str]]
) -> None:
    answer = rig.ask(_request(method, target, headers, "client"), rights)
    assert not rig.seen.defects
    assert re.match(rb"HTTP/1\.[01] [1-5][0-9][0-9] ", answer) or answer == b"", answer[:200]
    assert len(rig.seen.served) <= 1
    for name, served_method in rig.seen.served:
        root, verb, subresources = NEEDED[name]
        verb = verb or VERBS.get(served_method, "")
        assert served_method == method
        assert target.split(b"?")[0].split(b"/")[:2] == [b"", root.encode()]
        assert rig.asked() <= {(verb, subresource) for subresource in subresources}
        assert rights & rig.asked()
        if rights == {("get", "proxy")}:
            assert verb == "get"
    assert not rig.task.done()


@given(st.lists(st.tuples(_METHODS, _targets(), _HEADERS), min_size=1, max_size=3))
def test_server_goes_on_serving(rig: Rig, requests: list[tuple[str, bytes, bytes]]) -> None:
    """Also with several requests on one connection."""
    rig.ask(b"".join(_request(*each, "client") for each in requests), frozenset({("get", "proxy")}))
    answer = rig.ask(_request("GET", b"/healthz", b"", "admin"), frozenset())
    assert answer.startswith(b"HTTP/1.1 200 ")


@given(st.binary(max_size=200))
def test_server_survives_data_that_is_not_http(rig: Rig, data: bytes) -> None:
    request = _request("GET", b"/healthz", b"", "admin")
    rig.ask(data + b"\r\n\r\n" + request, frozenset())
    assert not rig.seen.defects
    assert {name for name, _ in rig.seen.served} <= {"InfoRoutes._healthz"}
    answer = rig.ask(request, frozenset())
    assert answer.startswith(b"HTTP/1.1 200 ")
