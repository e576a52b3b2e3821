"""Routes about the node over the real server: status, flags, stacks, log level, log queries."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from pykubelet.testing.wait import steps_of_another_task
from tests.unit.kubelet.serve.kubelet_api.world import Client, NodeWorld, Pki, as_admin

OBJECT = "application/json;g=config.k8s.io;v=v1beta1;as="


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def world(tmp_path: Path, pki: Pki) -> NodeWorld:
    made = NodeWorld(tmp_path, pki)
    made.reviews.rights |= {("admin", "get", "configz"), ("admin", "update", "proxy")}
    return made


async def get(client: Client, path: str, accept: str = "") -> tuple[int, str]:
    headers = {"Accept": accept} if accept else {"Accept": "*/*"}
    async with client.session.get(client.url + path, ssl=client.context, headers=headers) as response:
        return response.status, await response.text()


async def put(client: Client, path: str, body: str) -> tuple[int, str]:
    async with client.session.put(client.url + path, ssl=client.context, data=body) as response:
        return response.status, await response.text()


async def test_status_and_flags_as_text_and_objects(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        status, text = await get(client, "/statusz")
        assert status == 200 and "Paths: /attach /checkpoint /configz /containerLogs /debug /exec /flagz" in text
        assert '"kind":"Statusz"' in (await get(client, "/statusz", f"{OBJECT}Statusz"))[1]
        yaml = (await get(client, "/flagz", f"{OBJECT}Flagz".replace("json", "yaml")))[1]
        assert "flags:\n  node-name: node-1\n" in yaml
        assert (await get(client, "/flagz"))[1].endswith("node-name=node-1\n")
        assert (await get(client, "/flagz", "application/json"))[0] == 406


async def test_stacks_of_many_tasks_leave_other_tasks_their_turn(world: NodeWorld) -> None:
    waiting = asyncio.Event()
    tasks = [asyncio.create_task(waiting.wait(), name=f"waiting {number}") for number in range(2000)]
    async with as_admin(world) as client, steps_of_another_task() as steps:
        before = steps.count
        stacks = (await get(client, "/debug/pprof/goroutine?debug=2"))[1]
        assert steps.count - before >= 2000 // 16
    assert stacks.count("task waiting ") == 2000
    waiting.set()
    await asyncio.gather(*tasks)


async def test_profile_pages_show_stacks_and_name_the_missing_ones(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        assert "goroutine" in (await get(client, "/debug/pprof/"))[1]
        stacks = (await get(client, "/debug/pprof/goroutine?debug=2"))[1]
        assert "thread MainThread:" in stacks and "task server:" in stacks
        assert (await get(client, "/debug/pprof/cmdline"))[1]
        status, text = await get(client, "/debug/pprof/heap")
        assert status == 404 and "goroutine, cmdline" in text


@pytest.fixture
def level() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = root.level
    yield root
    root.setLevel(before)


async def test_the_logs_level_is_set_while_it_runs(world: NodeWorld, level: logging.Logger) -> None:
    async with as_admin(world) as client:
        assert await put(client, "/debug/flags/v", "4") == (200, "successfully set klog.logging.verbosity to 4")
        assert level.level == logging.DEBUG
        assert (await put(client, "/debug/flags/v", "2"))[0] == 200
        assert level.level == logging.INFO
        assert (await put(client, "/debug/flags/v", "much"))[0] == 400
        assert (await get(client, "/debug/flags/v"))[0] == 406


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"9" * 5000, "text/plain"),
        (b"caf\xc3", "text/plain"),
        (b"4", "text/plain; charset=nonsense"),
        ("\u0664".encode(), "text/plain"),
    ],
)
async def test_verbosity_that_is_no_number_is_refused(
    world: NodeWorld, level: logging.Logger, body: bytes, content_type: str
) -> None:
    before = level.level
    async with as_admin(world) as client:
        url, headers = f"{client.url}/debug/flags/v", {"Content-Type": content_type}
        async with client.session.put(url, ssl=client.context, data=body, headers=headers) as response:
            assert response.status == (200 if body == b"4" else 400)
    assert level.level == (logging.DEBUG if body == b"4" else before)


async def test_disabled_debug_pages_answer_405_with_the_reason(world: NodeWorld) -> None:
    world.change(profiling_handler=False, debug_flags_handler=False)
    async with as_admin(world) as client:
        assert await get(client, "/debug/pprof/goroutine") == (405, "profiling endpoint is disabled.\n")
        assert await put(client, "/debug/flags/v", "4") == (405, "flags endpoint is disabled.\n")


async def test_slis_tell_what_the_health_checks_found(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        assert (await get(client, "/metrics/slis"))[1] == ""
        await get(client, "/healthz")
        world.faults["ping"] = "no answer"
        await get(client, "/healthz")
        text = (await get(client, "/metrics/slis"))[1]
    assert 'kubernetes_healthcheck{name="ping",type="healthz"} 0\n' in text
    for status in ("success", "error"):
        assert f'kubernetes_healthchecks_total{{name="ping",status="{status}",type="healthz"}} 1\n' in text


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake journalctl that knows sshd and prints its own command line; for "flood", 40 MiB."""
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = --field ] && echo sshd.service && exit 0\n'
        'case "$*" in *--grep=flood*) head -c 41943040 /dev/zero; exit;; esac\n'
        """case "$*" in *"--grep=("*) echo 'Bad pattern "(": missing closing parenthesis' >&2; exit 1;; esac\n"""
        'echo "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("journal")
async def test_log_queries_are_answered_from_journal_and_files(world: NodeWorld) -> None:
    world.change(system_log_query=True)
    await asyncio.to_thread(_write_logs, world.node_logs)
    expected = {
        "/logs/?query=sshd&tailLines=3": (200, "--lines=3 --unit=sshd\n"),
        "/logs/?query=web": (200, "web in a file\n"),
        "/logs/?query=deep": (200, "deep in a directory\n"),
        "/logs/?query=web&query=deep": (200, "web in a file\ndeep in a directory\n"),
        "/logs/?query=none": (200, "\nlog not found for none\n"),
        "/logs/?query=web&boot=0": (200, "try without specifying options"),
        "/logs/?query=/web.log": (200, "web in a file\n"),
        "/logs/?query=/../secret": (404, ""),
        "/logs/?query=a%3Bb": (406, "unsupported characters"),
        "/logs/?query=sshd&pattern=(": (406, 'pattern: Bad pattern "(": missing closing parenthesis\n'),
        "/logs/?query=sshd&pattern=flood": (200, "\nlog truncated: it has more than 32 MiB\n"),
        "/logs/?query=%20": (400, "cannot be empty"),
        "/logs/web.log": (200, "web in a file\n"),
        "/logs/": (200, '<a href="web.log">'),
    }
    async with as_admin(world) as client:
        for path, (status, text) in expected.items():
            found = await get(client, path)
            assert found[0] == status and text in found[1], (path, found)


def _write_logs(directory: Path) -> None:
    (directory / "web.log").write_text("web in a file\n")
    (directory / "deep").mkdir()
    (directory / "deep" / "deep.log").write_text("deep in a directory\n")
    (directory.parent / "secret").write_text("not for you")


@pytest.mark.usefixtures("journal")
async def test_files_of_services_are_sent_in_pieces(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of any size in one answer would be held in memory, eight times at once."""
    world.change(system_log_query=True)
    large = b"x" * 3_000_001
    await asyncio.to_thread((world.node_logs / "large.log").write_bytes, large)
    sizes: list[int] = []
    write = web.StreamResponse.write

    async def noted(response: web.StreamResponse, data: bytes | bytearray | memoryview) -> None:
        sizes.append(len(data))
        await write(response, data)

    monkeypatch.setattr(web.StreamResponse, "write", noted)
    async with as_admin(world) as client:
        found = await get(client, "/logs/?query=large&query=none&query=large")
    assert found == (200, large.decode() + "\nlog not found for none\n" + large.decode())
    assert max(sizes) <= 256 * 1024


async def test_without_a_journal_there_are_files(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    world.change(system_log_query=True)
    await asyncio.to_thread(_write_logs, world.node_logs)
    async with as_admin(world) as client:
        assert await get(client, "/logs/?query=web") == (200, "web in a file\n")


async def test_queries_are_off_unless_they_are_asked_for(world: NodeWorld) -> None:
    async with as_admin(world) as client:
        status, text = await get(client, "/logs/?query=sshd")
        assert status == 200 and text.startswith("<pre>")
