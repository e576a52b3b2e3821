"""The handlers against real servers on the loopback device."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import msgspec
import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes import (
    ExecResult,
    ProbeHandlers,
    ProbeObservation,
    ProbeTarget,
    ProbeVerdict,
    probe_types,
)
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.models.core_v1 import (
    Container,
    ContainerPort,
    EnvVar,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    Probe,
    TCPSocketAction,
)
from pykubelet.testing.limits import no_descriptors
from tests.unit.base.http.http_server import answer, closed_port, http_server, redirect
from tests.unit.kubelet.observe.probes.fakes import REF

OK = ProbeObservation(ProbeVerdict.SUCCESS)


@dataclass
class Execs:
    """A runtime that runs commands as the test says."""

    results: list[ExecResult | Exception] = field(default_factory=lambda: [ExecResult(0)])
    calls: list[tuple[str, Sequence[str], Seconds]] = field(default_factory=list)

    async def __call__(self, container: ContainerID, command: Sequence[str], timeout: Seconds) -> ExecResult:
        self.calls.append((container, command, timeout))
        result = self.results[min(len(self.calls), len(self.results)) - 1]
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def execs() -> Execs:
    return Execs()


@pytest.fixture
async def handlers(execs: Execs) -> AsyncIterator[ProbeHandlers]:
    handlers = ProbeHandlers(execs)
    yield handlers
    await handlers.close()


def target(probe: Probe, *ports: ContainerPort, ip: str = "127.0.0.1") -> ProbeTarget:
    env = (EnvVar(name="DIR", value="/data"), EnvVar(name="FROM"))
    container = Container(name="c", ports=ports, env=env)
    return ProbeTarget(REF, container, ContainerID("id1"), ProbeType.LIVENESS, probe, ip, 0.0)


def http(port: int | str, path: str = "/", host: str = "", **headers: str) -> Probe:
    rows = tuple(HTTPHeader(name=name.replace("_", "-"), value=value) for name, value in headers.items())
    return Probe(http_get=HTTPGetAction(port=port, path=path, host=host, http_headers=rows), timeout_seconds=30)


def tcp(port: int | str, host: str = "") -> Probe:
    return Probe(tcp_socket=TCPSocketAction(port=port, host=host), timeout_seconds=30)


def hasty(probe: Probe) -> ProbeTarget:
    return target(msgspec.structs.replace(probe, timeout_seconds=1))


# -- exec


async def test_a_command_that_ends_with_0(handlers: ProbeHandlers, execs: Execs) -> None:
    probe = Probe(exec=ExecAction(command=("test", "-e", "$(DIR)/$(FROM)x$(NO)")), timeout_seconds=7)
    assert await handlers.probe(target(probe)) == OK
    assert execs.calls == [("id1", ("test", "-e", "/data/x$(NO)"), 7)]


async def test_a_command_is_expanded_once(
    handlers: ProbeHandlers, execs: Execs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have hundreds of thousands of references, and run every second."""
    expanded: list[object] = []

    def expand(words: Iterable[str], *_: object) -> tuple[str, ...]:
        expanded.append(words)
        return tuple(words)

    monkeypatch.setattr(probe_types, "expand_all", expand)
    probed = target(Probe(exec=ExecAction(command=("true",))))
    for _ in range(3):
        assert await handlers.probe(probed) == ProbeObservation(ProbeVerdict.SUCCESS)
    assert len(expanded) == 1 and len(execs.calls) == 3


async def test_variables_add_little_to_a_command_since_it_is_kept(handlers: ProbeHandlers, execs: Execs) -> None:
    env = (EnvVar(name="A", value="x" * 1024),)
    short, long = (
        msgspec.structs.replace(
            target(Probe(exec=ExecAction(command=("y" * 90_000, "$(A)" * references)))),
            container=Container(name="c", env=env),
        )
        for references in (60, 70)
    )
    assert await handlers.probe(short) == ProbeObservation(ProbeVerdict.SUCCESS)
    seen = await handlers.probe(long)
    assert seen.verdict is ProbeVerdict.ERROR and "longer than" in seen.message
    assert [len(command[1]) for _, command, _ in execs.calls] == [60 * 1024]


async def test_a_command_that_fails_says_why(handlers: ProbeHandlers, execs: Execs) -> None:
    execs.results = [ExecResult(3, b"out \xff", b"err" + b"x" * 20000)]
    seen = await handlers.probe(target(Probe(exec=ExecAction(command=("false",)))))
    assert seen.verdict is ProbeVerdict.FAILURE
    assert seen.message.startswith("out \ufffderrxxx")
    assert len(seen.message) == 10 * 1024


async def test_a_command_that_takes_too_long(handlers: ProbeHandlers, execs: Execs) -> None:
    execs.results = [TimeoutError()]
    seen = await handlers.probe(target(Probe(exec=ExecAction(command=("sleep", "9")))))
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, 'command timed out: "sleep 9" timed out after 1s')


async def test_a_command_that_cannot_be_run_is_tried_three_times(handlers: ProbeHandlers, execs: Execs) -> None:
    probe = target(Probe(exec=ExecAction(command=("true",))))
    execs.results = [Transient("busy"), Transient("busy"), ExecResult(0)]
    assert await handlers.probe(probe) == OK
    execs.calls.clear()
    execs.results = [Transient("busy")]
    assert await handlers.probe(probe) == ProbeObservation(ProbeVerdict.ERROR, "busy")
    assert len(execs.calls) == 3


async def test_permanent_error_is_not_retried(handlers: ProbeHandlers, execs: Execs) -> None:
    execs.results = [NotFound("no such container")]
    seen = await handlers.probe(target(Probe(exec=ExecAction(command=("true",)))))
    assert seen == ProbeObservation(ProbeVerdict.ERROR, "no such container")
    assert len(execs.calls) == 1


# -- httpGet


@pytest.mark.parametrize(
    ("status", "verdict", "message"),
    [
        ("200 OK", ProbeVerdict.SUCCESS, ""),
        ("204 No Content", ProbeVerdict.SUCCESS, ""),
        ("300 Multiple Choices", ProbeVerdict.WARNING, "Probe terminated redirects, Response body: secret"),
        ("399 X", ProbeVerdict.WARNING, "Probe terminated redirects, Response body: secret"),
        ("400 Bad Request", ProbeVerdict.FAILURE, "HTTP probe failed with statuscode: 400"),
        ("503 Service Unavailable", ProbeVerdict.FAILURE, "HTTP probe failed with statuscode: 503"),
    ],
)
async def test_http_status_decides_the_probe(
    handlers: ProbeHandlers, status: str, verdict: ProbeVerdict, message: str
) -> None:
    body = b"" if status.startswith("204") else b"secret"
    async with http_server(lambda _: answer(status, body)) as server:
        assert await handlers.probe(target(http(server.port))) == ProbeObservation(verdict, message)


async def test_http_request_has_path_and_headers_of_the_probe(handlers: ProbeHandlers) -> None:
    async with http_server(lambda _: answer()) as server:
        port = ContainerPort(name="web", container_port=server.port)
        assert await handlers.probe(target(http("web", "/h?a=b", X_One="1"), port)) == OK
        custom = http("web", "/", User_Agent="mine", Accept="", Host="v.example")
        assert await handlers.probe(target(custom, port)) == OK
    assert server.lines[0] == "GET /h?a=b"
    assert server.headers(0) == {
        "host": f"127.0.0.1:{server.port}",
        "x-one": "1",
        "user-agent": "kube-probe/1.36",
        "accept": "*/*",
        "connection": "close",
    }
    assert server.headers(1) == {"host": "v.example", "user-agent": "mine", "connection": "close"}


async def test_a_redirect_to_another_host_is_not_followed(handlers: ProbeHandlers) -> None:
    async with http_server(lambda _: answer()) as metadata:
        location = f"http://localhost:{metadata.port}/latest/meta-data"
        async with http_server(lambda _: redirect(location)) as server:
            seen = await handlers.probe(target(http(server.port)))
    assert seen == ProbeObservation(ProbeVerdict.WARNING, "Probe terminated redirects, Response body: ")
    assert metadata.requests == []


async def test_https_with_any_certificate(handlers: ProbeHandlers) -> None:
    async with http_server(lambda _: answer(), tls=True) as server:
        action = HTTPGetAction(port=server.port, path="/", scheme="HTTPS")
        probe = Probe(http_get=action, timeout_seconds=30)
        assert await handlers.probe(target(probe)) == OK


async def test_no_http_answer_is_a_failure(handlers: ProbeHandlers) -> None:
    port = closed_port()
    seen = await handlers.probe(target(http(port)))
    message = f'Get "http://127.0.0.1:{port}/": connect to 127.0.0.1 port {port}: Connection refused'
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, message)
    async with http_server(lambda _: None) as server:
        seen = await handlers.probe(hasty(http(server.port)))
    assert seen == ProbeObservation(
        ProbeVerdict.FAILURE, f'Get "http://127.0.0.1:{server.port}/": no answer within 1 s'
    )


async def test_probe_with_a_host_asks_that_host(handlers: ProbeHandlers) -> None:
    async with http_server(lambda _: answer()) as server:
        assert await handlers.probe(target(http(server.port, host="127.0.0.1"), ip="192.0.2.1")) == OK
        assert await handlers.probe(target(http(server.port, host="localhost"), ip="192.0.2.1")) == OK


@pytest.mark.parametrize("probe", [http("nope"), Probe(tcp_socket=TCPSocketAction(port=0)), Probe()])
async def test_probes_that_cannot_be_made(handlers: ProbeHandlers, probe: Probe) -> None:
    seen = await handlers.probe(target(probe))
    assert seen.verdict is ProbeVerdict.ERROR
    assert "default/web:c" in seen.message


@pytest.mark.parametrize(
    "probe", [http(80), Probe(tcp_socket=TCPSocketAction(port=80)), Probe(grpc=GRPCAction(port=80))]
)
async def test_a_pod_without_an_address_is_not_probed_on_the_node(handlers: ProbeHandlers, probe: Probe) -> None:
    seen = await handlers.probe(target(probe, ip=""))
    assert seen == ProbeObservation(ProbeVerdict.ERROR, "default/web has no IP address to probe yet")


# -- tcpSocket


async def test_tcp_probe_fails_when_no_one_listens(handlers: ProbeHandlers) -> None:
    async with listening() as port:
        assert await handlers.probe(target(tcp(port))) == OK
        assert await handlers.probe(target(tcp(port, "localhost"), ip="")) == OK
        named = ContainerPort(name="db", container_port=port)
        assert await handlers.probe(target(tcp("db"), named)) == OK
    seen = await handlers.probe(target(tcp(port)))
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, f"connect to 127.0.0.1 port {port}: Connection refused")


async def test_tcp_probe_over_ipv6_succeeds(handlers: ProbeHandlers) -> None:
    if not _has_ipv6():
        pytest.skip("needs IPv6 on the loopback device")
    async with listening("::1") as port:
        assert await handlers.probe(target(tcp(port), ip="::1")) == OK


async def test_tcp_to_a_server_that_does_not_accept(handlers: ProbeHandlers) -> None:
    """Its queue is full, so that the kernel leaves further connections without an answer."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        port = server.getsockname()[1]
        seen = await handlers.probe(hasty(tcp(port)))
        for each in waiting:
            each.close()
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, f"connect to 127.0.0.1 port {port}: no answer within 1 s")


@pytest.mark.parametrize("probe", [tcp, http])
async def test_lack_of_descriptors_is_no_failure_of_the_container(
    handlers: ProbeHandlers, probe: Callable[[int], Probe]
) -> None:
    """Otherwise containers would be restarted because the agent has too many files open."""
    async with listening() as port:
        await handlers.probe(target(probe(port)))
        with no_descriptors():
            seen = await handlers.probe(target(probe(port)))
    assert seen.verdict is ProbeVerdict.ERROR
    assert "Too many open files" in seen.message


async def test_tcp_probe_of_an_unknown_host_fails(handlers: ProbeHandlers) -> None:
    seen = await handlers.probe(target(tcp(80, "no-such-host.invalid")))
    assert seen.verdict is ProbeVerdict.FAILURE
    assert seen.message.startswith("connect to no-such-host.invalid port 80: ")


async def test_probes_do_not_wait_for_each_other(handlers: ProbeHandlers) -> None:
    async with (
        http_server(lambda _: None) as stuck,
        http_server(lambda _: answer()) as quick,
        asyncio.TaskGroup() as group,
    ):
        slow = target(http(stuck.port))
        hung = [group.create_task(handlers.probe(slow), name="hung probe") for _ in range(50)]
        seen = [await handlers.probe(target(http(quick.port))) for _ in range(10)]
        assert len(stuck.requests) > 0
        assert not any(task.done() for task in hung)
        for task in hung:
            task.cancel()
    assert seen == [OK] * 10


@asynccontextmanager
async def listening(host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A server that closes each connection at once; of those that come late, none outlives it."""

    def close() -> None:
        with suppress(OSError):
            server.accept()[0].close()

    loop = asyncio.get_running_loop()
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        server.setblocking(False)
        loop.add_reader(server, close)
        try:
            yield server.getsockname()[1]
        finally:
            loop.remove_reader(server)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
