"""Arbitrary requests, valid and invalid, to every call of the runtime server.

Each succeeds or is refused with an intended status code; the server keeps running and serves valid requests. Afterwards
its lists agree with the machine: the OCI runtime, cgroups, mounts and networks.
"""

import asyncio
import os
import random
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.message import Message
from grpc import StatusCode
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.server.cri_calls.images import ImageCalls
from pykubelet.criserver.server.errors import status_of
from pykubelet.criserver.server.request_text import check_text
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.fuzz.agreement import check_lists
from tests.fuzz.criserver import Stage, staged
from tests.fuzz.machine import IMAGE
from tests.fuzz.nonsense import Nonsense
from tests.fuzz.simulation import SimulatedLoop
from tests.unit.criserver.images.served import NoContainers
from tests.unit.criserver.images.stores import open_stores

_EXAMPLES = int(os.environ.get("PYKUBELET_FUZZ_EXAMPLES", "10"))
_CALLS = 6
_MAKING = ("RunPodSandbox", "CreateContainer", "UpdateContainerResources")
"""The calls whose requests have most of the fields."""
_ENDLESS = frozenset(("GetContainerEvents",))


def _pod(number: int = 0) -> pb.RunPodSandboxRequest:
    request = pb.RunPodSandboxRequest()
    request.config.metadata.attempt = number
    metadata = request.config.metadata
    metadata.name, metadata.namespace, metadata.uid = "pod", "default", "u"
    options = request.config.linux.security_context.namespace_options
    options.pid, options.ipc = pb.CONTAINER, pb.NODE
    return request


def _container(sandbox: str, number: int = 0) -> pb.CreateContainerRequest:
    request = pb.CreateContainerRequest(pod_sandbox_id=sandbox)
    request.config.metadata.attempt = number
    request.config.metadata.name, request.config.image.image = "c", IMAGE
    request.config.linux.security_context.namespace_options.pid = pb.CONTAINER
    return request


class _ExampleRequests:
    """The requests of one example."""

    def __init__(self, stage: Stage, directory: Path, sandbox: str, container: str) -> None:
        self.chance = stage.loop.chance
        self._stage = stage
        self._sandbox = sandbox
        self._number = 0
        self._nonsense = Nonsense(self.chance, directory, (sandbox, container))

    def request(self, name: str) -> Message:
        """A request, often valid except for a few fields."""
        request = self._stage.requests[name]()
        self._nonsense.fill(request, self.chance.choice((0.05, 0.3, 0.9)))
        if self.chance.random() < 0.8:
            self._number += 1
            if isinstance(request, pb.RunPodSandboxRequest):
                request.runtime_handler = ""
                request.MergeFrom(_pod(self._number))
            elif isinstance(request, pb.CreateContainerRequest):
                request.MergeFrom(_container(self._sandbox, self._number))
        return request


async def _answer(calls: Stage, name: str, request: Message) -> Message | None:
    """The reply, or the last one of a stream; None if the request was refused with an intended status code."""
    try:
        check_text(request)
        if name in calls.calls:
            reply = await calls.calls[name](request)
        else:
            async with aclosing(cast(Any, calls.streams[name](request))) as replies:
                reply = [each async for each in replies][-1]
    except Exception as error:
        code, words = status_of(error, name)
        assert code is not StatusCode.INTERNAL, (name, error)
        assert isinstance(error, PykubeletError | ExceptionGroup)
        assert len(words.encode()) < 8192
        return None
    assert len(reply.SerializeToString()) < 16 << 20
    return cast(Message, reply)


@settings(max_examples=_EXAMPLES)
@given(st.integers(0, 1 << 32))
def test_any_request_is_answered_or_refused_and_the_server_goes_on(seed: int) -> None:
    loop = SimulatedLoop(random.Random(seed))
    with (
        tempfile.TemporaryDirectory() as directory,
        staged(loop, Path(directory)) as stage,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(_ask(stage, Path(directory) / "node"))


async def _ask(stage: Stage, directory: Path) -> None:
    directory.mkdir()
    await stage.start()
    try:
        sandbox = (await stage.calls["RunPodSandbox"](_pod())).pod_sandbox_id
        container = (await stage.calls["CreateContainer"](_container(sandbox))).container_id
        await stage.calls["StartContainer"](pb.StartContainerRequest(container_id=container))
        given_ = _ExampleRequests(stage, directory, sandbox, container)
        names = sorted({*stage.calls, *stage.streams} - _ENDLESS)
        for name in (*given_.chance.choices(names, k=_CALLS), *given_.chance.choices(_MAKING, k=_CALLS)):
            work = _answer(stage, name, given_.request(name))
            await stage.call(lambda work=work: work)  # type: ignore[misc]  # bound at once
        await stage.settled()
        await check_lists(stage)
        assert stage.life.main is not None and not stage.life.main.done(), "the server has ended"
        sensible = _pod()
        sensible.config.metadata.uid = "afterwards"
        assert await _answer(stage, "RunPodSandbox", sensible) is not None
        for name in ("Version", "Status", "ListPodSandbox", "ListContainers", "ListContainerStats"):
            assert await _answer(stage, name, stage.requests[name]()) is not None
        await check_lists(stage)
    finally:
        await stage.end(killed=True)


@pytest.mark.parametrize("what", ["cgroups", "namespaces", "rootfs", "attached", "state"])
def test_check_of_the_lists_finds_leftovers_of_a_removed_pod(what: str) -> None:
    loop = SimulatedLoop(random.Random(0))

    async def leave() -> None:
        await stage.start()
        try:
            await check_lists(stage)
            match getattr(stage.machine, what, None):
                case dict() as found:
                    found["f" * 64] = "/pykubelet/" + "f" * 64
                case set() as found:
                    found.add("f" * 64)
                case _:
                    (stage.settings.runtime_root("runc") / ("f" * 64)).mkdir()
            with pytest.raises(AssertionError):
                await check_lists(stage)
        finally:
            await stage.end(killed=True)

    with (
        tempfile.TemporaryDirectory() as directory,
        staged(loop, Path(directory)) as stage,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(leave())


@settings(max_examples=_EXAMPLES)
@given(st.integers(0, 1 << 32))
def test_any_request_about_images_is_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        stores = open_stores(Path(directory) / "rooms")
        stage = Stage(SimulatedLoop(chance), Path(directory))
        ImageCalls(stores.images, NoContainers(), clock=stage.clock).register(cast(Calls, stage))
        nonsense = Nonsense(chance, Path(directory), ())
        for name in sorted({*stage.calls, *stage.streams}):
            request = stage.requests[name]()
            nonsense.fill(request, chance.choice((0.2, 0.9)))
            runner.run(_answer(stage, name, request))
        stage.loop.close()
