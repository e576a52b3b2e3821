"""The kubelet API server as its clients see it, over real TLS."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Permanent, Transient, Unsupported
from pykubelet.kubelet.serve.kubelet_api import AuthConfig, CertFiles, KubeletApiServer
from pykubelet.models.authentication_v1 import UserInfo
from pykubelet.testing.certificates import Authority
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.wait import until
from tests.unit.kubelet.report.pods import pod
from tests.unit.kubelet.serve.kubelet_api.world import NodeWorld, Pki, as_admin, client_of, running_server
from tests.unit.kubelet.serve.local_api.world import open_files, running
from tests.unit.kubelet.serve.logs.records import raw

PATHS = [
    *("/healthz", "/healthz/ping", "/pods", "/stats/summary", "/metrics", "/metrics/cadvisor", "/metrics/resource"),
    *("/metrics/probes", "/runningpods/", "/configz", "/statusz", "/logs/", "/containerLogs/ns/web/app"),
]
STREAMS = ["/exec/ns/web/app?command=ls&output=1", "/attach/ns/web/app?output=1", "/portForward/ns/web"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def world(tmp_path: Path, pki: Pki) -> NodeWorld:
    world = NodeWorld(tmp_path, pki)
    world.set(running(), pod())
    (world.logs / "0.log").write_bytes(raw("one") + raw("two", at=1, stream="stderr"))
    return world


async def test_client_without_credentials_is_unauthorized_everywhere(world: NodeWorld) -> None:
    async with running_server(world) as server, client_of(world, server) as client:
        for path in (*PATHS, *STREAMS, "/nowhere", "/run/ns/web/app"):
            for method in ("GET", "POST", "PUT"):
                async with client.request(method, path) as response:
                    assert (response.status, await response.text()) == (401, "Unauthorized"), f"{method} {path}"
    assert not world.reviews.access_reviews


async def test_client_without_rights_is_forbidden_everywhere(world: NodeWorld) -> None:
    outsider = world.authority.issue("outsider")
    async with running_server(world) as server, client_of(world, server, outsider) as client:
        for path in (*PATHS, *STREAMS, "/nowhere"):
            async with client.get(path) as response:
                assert response.status == 403, path
                assert (await response.text()).startswith("Forbidden (user=outsider, verb="), path
    assert not world.runtime.asked


async def test_client_that_may_read_the_node_may_not_run_commands(world: NodeWorld) -> None:
    world.reviews.rights = {("reader", "get", "proxy")}
    reader = world.authority.issue("reader")
    async with running_server(world) as server, client_of(world, server, reader) as client:
        async with client.get("/pods") as response:
            assert response.status == 200
        for path in STREAMS:
            async with client.get(path) as response:
                assert response.status == 403, path


async def test_a_token_that_the_api_server_knows(world: NodeWorld) -> None:
    world.reviews.users["good"] = UserInfo(username="prom")
    world.reviews.rights = {("prom", "get", "metrics")}
    async with running_server(world) as server, client_of(world, server) as client:
        async with client.get("/metrics", "good") as response:
            assert response.status == 200
            assert "kubelet_node_name" in await response.text()
        async with client.get("/pods", "good") as response:
            assert response.status == 403
            assert "subresource(s)=[pods proxy]" in await response.text()
        async with client.get("/metrics", "bad") as response:
            assert response.status == 401


async def test_scrape_does_not_wait_for_a_cpu_usage_that_it_does_not_show(world: NodeWorld) -> None:
    world.change(auth=AuthConfig(anonymous=True))
    world.reviews.rights = {("system:anonymous", "get", "metrics"), ("system:anonymous", "get", "stats")}
    async with running_server(world) as server, client_of(world, server) as client:
        for path in ("/metrics", "/stats/summary"):
            async with client.get(path) as response:
                assert response.status == 200
    assert world.stats.rates == [False, True]


async def test_anonymous_access_still_needs_rights(world: NodeWorld) -> None:
    world.change(auth=AuthConfig(anonymous=True))
    world.reviews.rights = {("system:anonymous", "get", "healthz")}
    async with running_server(world) as server, client_of(world, server) as client:
        async with client.get("/healthz") as response:
            assert (response.status, await response.text()) == (200, "ok")
        async with client.get("/pods") as response:
            assert response.status == 403


async def test_a_certificate_of_another_authority_is_refused(world: NodeWorld) -> None:
    forged = Authority(world.base / "forged", "pykubelet test authority").issue("admin", group="system:masters")
    world.admin()
    async with running_server(world) as server, client_of(world, server, forged) as client:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            async with client.get("/pods") as response:
                await response.read()


async def test_connection_of_an_earlier_client_authority_ends_with_its_request(world: NodeWorld) -> None:
    """Otherwise a client whose authority was replaced would have access for as long as it keeps its connection."""
    clients = world.base / "clients.pem"
    clients.write_bytes(world.authority.ca.read_bytes())
    world.change(tls=replace(world.server_config.tls, client_ca=clients))
    issued = world.admin()
    context = ssl.create_default_context(cafile=str(world.authority.ca))
    context.load_cert_chain(issued.certificate, issued.key)
    request = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    async with running_server(world) as server, client_of(world, server) as other:
        kept = [await asyncio.open_connection("127.0.0.1", server.port, ssl=context) for _ in range(2)]
        (idle, asking), (follower, following) = kept
        asking.write(request.format("/healthz").encode())
        assert (await idle.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        following.write(request.format("/containerLogs/ns/web/app?follow=true").encode())
        await follower.readuntil(b"two\n")

        clients.write_bytes(Authority(world.base / "next", "the next authority").ca.read_bytes())
        async with other.get("/pods") as response:
            assert response.status == 401
        with suppress(ConnectionError):
            assert await idle.read() == b""
        with (world.logs / "0.log").open("ab") as log:
            log.write(raw("three", at=2))
        assert b"three\n" in await follower.readuntil(b"three\n")
        for _, writer in kept:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_an_api_server_that_is_away_is_no_permission(world: NodeWorld) -> None:
    telemetry = replace(world.server_deps.telemetry, clock=_Instant(world))
    world.server_deps = replace(world.server_deps, telemetry=telemetry)
    world.reviews.failures = 1000
    async with as_admin(world) as client, client.get("/pods") as response:
        assert response.status == 500
        assert "Authorization error" in await response.text()


class _Instant:
    """A clock that does not wait."""

    def __init__(self, world: NodeWorld) -> None:
        self.now = world.clock.now
        self.monotonic = world.clock.monotonic

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0


async def test_administrator_reads_every_page(world: NodeWorld) -> None:
    (world.node_logs / "syslog").write_text("a line\n")
    expected = {
        "/healthz": "ok",
        "/pods": '"kind":"PodList"',
        "/runningpods/": '"image":"busybox"',
        "/stats/summary": '"nodeName":"node-1"',
        "/stats/summary?only_cpu_and_memory=true": '"nodeName":"light"',
        "/metrics/cadvisor": 'container_cpu_usage_seconds_total{container="",id="/",',
        "/metrics/resource": "node_cpu_usage_seconds_total 1.5 ",
        "/metrics": "kubelet_http_requests_total",
        "/configz": '"kubeletconfig":{"kind":"KubeletConfiguration"',
        "/statusz": "Binary version: v1.36.0",
        "/logs/": '<a href="syslog">syslog</a>',
        "/logs/syslog": "a line\n",
        "/containerLogs/ns/web/app": "one\ntwo\n",
        "/containerLogs/ns/web/app?tailLines=1": "two\n",
        "/containerLogs/ns/web/app?tail=1": "two\n",
        "/containerLogs/ns/web/app?tail=all": "one\ntwo\n",
        "/containerLogs/ns/web/app?stream=Stderr": "two\n",
        "/containerLogs/ns/web/app?limitBytes=2": "on",
    }
    async with as_admin(world) as client:
        for path, text in expected.items():
            async with client.get(path) as response:
                body = await response.text()
                assert response.status == 200, f"{path}: {body}"
                assert text in body, path


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/containerLogs/ns/nope/app", 404, 'pod "nope" does not exist'),
        ("/containerLogs/ns/web/nope", 404, 'container "nope" not found in pod "web"'),
        ("/containerLogs/ns/web/app?previous=true", 400, "previous terminated container"),
        ("/containerLogs/ns/web/app?tailLines=x", 400, "tailLines"),
        ("/containerLogs/ns/web/app?tailLines=-1", 422, "tailLines"),
        ("/containerLogs/ns/web/app?limitBytes=0", 422, "limitBytes"),
        ("/containerLogs/ns/web/app?stream=x", 422, "stream"),
        ("/exec/ns/web/app?command=ls", 400, "at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/web/app?output=1", 400, "command"),
        ("/exec/ns/web/app?command=ls&output=1", 400, "pgrade"),
        ("/exec/ns/nope/app?command=ls&output=1", 404, "does not exist"),
        ("/exec/ns/web/other-uid/app?command=ls&output=1", 404, "does not exist"),
        ("/portForward/ns/web?port=x", 400, "not port numbers"),
        ("/stats/summary?only_cpu_and_memory=perhaps", 400, "neither true nor false"),
        ("/logs/nope", 404, "nope"),
        ("/healthz/nope", 404, "no health check"),
        ("/run/ns/web/app?cmd=ls", 405, ""),
        ("/nowhere", 404, "/nowhere"),
    ],
)
async def test_errors_are_plain_text_with_the_go_kubelets_codes(
    world: NodeWorld, path: str, status: int, text: str
) -> None:
    async with as_admin(world) as client, client.get(path) as response:
        assert response.status == status
        assert response.content_type == "text/plain"
        assert text in await response.text()
    assert not world.runtime.asked


async def test_a_failing_check_fails_healthz(world: NodeWorld) -> None:
    world.faults["pleg"] = "pleg was last seen active 5m ago"
    async with as_admin(world) as client, client.get("/healthz") as response:
        assert response.status == 500
        assert "last seen active" in await response.text()


async def test_run_gives_the_output_or_the_exit_code(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        async with client.request("POST", "/run/ns/web/app?cmd=ls+-l+/") as response:
            assert (response.status, await response.text()) == (200, "done\n")
        world.runtime.answer = (3, b"no such file")
        async with client.request("POST", "/run/ns/web/uid-1/app?cmd=false") as response:
            assert response.status == 500
            assert "exit code 3: no such file" in await response.text()
    assert world.runtime.commands == [("ls", "-l", "/"), ("false",)]


async def test_a_checkpoint_is_written_and_named(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        async with client.request("POST", "/checkpoint/ns/web/app?timeout=5") as response:
            assert response.status == 200
            assert await response.json() == {"items": [str(world.runtime.archives[0])]}
        world.runtime.checkpoint_error = Unsupported("CheckpointContainer is not known")
        async with client.request("POST", "/checkpoint/ns/web/app") as response:
            assert response.status == 500
            assert "checkpointing of ns/web/app failed (Checkpoint" in await response.text()
        async with client.request("POST", "/checkpoint/ns/web/nope") as response:
            assert response.status == 404
    (archive,) = world.runtime.archives
    assert archive.parent == world.base / "checkpoints"
    assert archive.name.startswith("checkpoint-web_ns-app-20") and archive.name.endswith("Z.tar")


async def test_figures_that_cannot_be_read_are_said_to_be_missing(world: NodeWorld) -> None:
    world.stats.error = Transient("no runtime")
    async with as_admin(world) as client:
        async with client.get("/metrics/resource") as response:
            assert response.status == 200
            assert "\nresource_scrape_error 1\n" in await response.text()
        async with client.get("/metrics/cadvisor") as response:
            assert response.status == 503


async def test_a_followed_log_goes_on_until_the_client_leaves(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        async with client.get("/containerLogs/ns/web/app?follow=true&tailLines=1") as response:
            # The first follower creates the inotify instance, which is kept.
            assert await response.content.readline() == b"two\n"
        for _ in range(3):
            before = open_files()
            async with client.get("/containerLogs/ns/web/app?follow=true&tailLines=1") as response:
                assert await response.content.readline() == b"two\n"
                world.log("three")
                assert await response.content.readline() == b"three\n"
                world.log("two")
            await until(partial(_at_most, before))


def _at_most(count: int) -> bool:
    return open_files() <= count


async def test_without_debugging_handlers_pods_cannot_be_reached(world: NodeWorld) -> None:
    world.change(debugging_handlers=False)
    async with as_admin(world) as client:
        for path in (*STREAMS, "/containerLogs/ns/web/app", "/runningpods/", "/logs/", "/logs/syslog"):
            async with client.get(path) as response:
                assert (response.status, await response.text()) == (405, "Debug endpoints are disabled.\n"), path
        async with client.get("/pods") as response:
            assert response.status == 200
        async with client.get("/configz") as response:
            assert response.status == 404


async def test_the_nodes_logs_can_be_closed(world: NodeWorld) -> None:
    world.change(system_log_handler=False)
    async with as_admin(world) as client, client.get("/logs/syslog") as response:
        assert (response.status, await response.text()) == (405, "logs endpoint is disabled.\n")


async def test_connections_without_tls_are_dropped_and_leak_nothing(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        before = open_files()
        port = int(client.url.rpartition(":")[2])
        for first in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05rubbish", b"\x00" * 5000):
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                if first:
                    writer.write(first)
                    async with asyncio.timeout(5):
                        with suppress(ConnectionError):
                            assert b"HTTP/1.1 200" not in await reader.read()
                writer.transport.abort()
        await until(partial(_at_most, before))
        async with client.get("/healthz") as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("line", "field", "fields", "accepted"),
    [
        (100_000, 10, 1, True),
        (200_000, 10, 1, False),
        (10, 15_000, 1, True),
        (10, 20_000, 1, False),
        (10, 10, 90, False),
    ],
)
async def test_requests_have_a_largest_size(
    world: NodeWorld, line: int, field: int, fields: int, accepted: bool
) -> None:
    headers = {f"X-{number}": "y" * field for number in range(fields)}
    async with running_server(world) as server, client_of(world, server) as client:
        url = f"{client.url}/healthz?{'x' * line}"
        async with client.session.get(url, ssl=client.context, headers=headers) as response:
            assert response.status == (401 if accepted else 400)


async def test_the_read_only_port_shows_and_does_nothing_else(world: NodeWorld) -> None:
    world.change(read_only_port=free_port())
    allowed = {"/healthz", "/healthz/ping", "/pods", "/stats/summary"}
    allowed |= {path for path in PATHS if path.startswith("/metrics")}
    async with running_server(world) as server, aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{server.read_only_port}"
        for path in (*PATHS, *STREAMS, "/checkpoint/ns/web/app"):
            async with session.get(base + path) as response:
                assert response.status == (200 if path in allowed else 404), path
            async with session.post(base + path) as response:
                assert response.status == (405 if path in allowed else 404), path
    assert not world.runtime.asked


async def test_a_new_certificate_needs_no_restart(world: NodeWorld) -> None:
    authority = Authority(world.base / "serving", "serving authority")
    given = [authority.issue("first", ["first", "127.0.0.1"])]
    world.server_deps = replace(world.server_deps, certificate=lambda: CertFiles(given[0].certificate, given[0].key))
    issued = world.admin()
    async with running_server(world) as server:
        for name in ("first", "second"):
            given[0] = authority.issue(name, [name, "127.0.0.1"])
            context = ssl.create_default_context(cafile=str(authority.ca))
            context.load_cert_chain(issued.certificate, issued.key)
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
            peer = writer.get_extra_info("peercert")
            writer.close()
            await writer.wait_closed()
            assert peer["subject"] == ((("commonName", name),),)


async def test_a_port_that_is_taken_is_named(world: NodeWorld) -> None:
    async with running_server(world) as server:
        world.change(port=server.port)
        with pytest.raises(ExceptionGroup) as caught:
            await KubeletApiServer(world.server_config, world.server_deps).run()
    assert caught.group_contains(Permanent, match=f"cannot listen on 127.0.0.1:{server.port}")


async def test_webhook_rules_need_an_api_server(world: NodeWorld) -> None:
    world.server_deps = replace(world.server_deps, reviews=None)
    with pytest.raises(Invalid, match=r"authorization\.mode"):
        await KubeletApiServer(world.server_config, world.server_deps).run()


async def test_requests_are_counted_by_the_first_part_of_their_path(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        for path in ("/pods", "/metrics/cadvisor", "/containerLogs/ns/web/app", "/a/b", "/x"):
            async with client.get(path) as response:
                await response.read()
    text = world.metrics.render().decode()
    for path, count in (("pods", 1), ("metrics/cadvisor", 1), ("containerLogs", 1), ("other", 2)):
        labels = f'long_running="false",method="GET",path="{path}",server_type="readwrite"'
        assert f"kubelet_http_requests_total{{{labels}}} {count}.0" in text
