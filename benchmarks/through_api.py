"""Pods through the API server: every agent in turn is the node of the same cluster, each on its own runtime.

``api.KIND.running``: one pod at a time, from the POST of a client to the watch event with the phase Running;
``started`` is the main container's ``startedAt``, by the runtime. ``api.KIND.gone``: from the DELETE, with the
pod's own grace period, to the removal of the object; the container exits on SIGTERM at once.
``api.N``: N default pods at once; ``wall`` and ``delete_wall`` are the times until the last is Running, or gone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field

from benchmarks.cluster import Client, api_server
from benchmarks.figures import WHOLE, Figure
from benchmarks.go_kubelet import GoKubelet
from benchmarks.manifests import Manifest, served, served_with_inits, served_without_token
from benchmarks.observer import NODE, Observer, remove_sandboxes
from benchmarks.plan import Plan
from benchmarks.session import MILLI, main_start
from benchmarks.subjects import Agent, Subject
from benchmarks.world import World
from pykubelet.base.errors import NotFound, Permanent, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.envtest import EnvTest

_READY_SECONDS = 90.0
_FIRST_SECONDS = 60.0
_SECONDS = 60.0
_MANY_SECONDS = 300.0
_SETTLE_SECONDS = 0.5
"""Minimum time from Running to the deletion."""

Build = Callable[[str], Manifest]
_KINDS: dict[str, Build] = {"default": served, "tokenless": served_without_token, "inits": served_with_inits}


@dataclass(frozen=True, slots=True)
class Output:
    """Destination of figures, remarks and progress messages."""

    figures: list[Figure]
    remarks: list[str]
    """Remarks that the reader must know besides the figures."""
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An agent and its runtime."""

    subject: Subject
    endpoint: str


@dataclass(slots=True)
class _Bench:
    """The state that the rounds share."""

    plan: Plan
    client: Client
    out: Output
    series: defaultdict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Values by figure and subject."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One agent in one round."""

    bench: _Bench
    subject: Subject
    observer: Observer
    number: int

    def say(self, text: str) -> None:
        self.bench.out.say(f"{self.subject.label} as a node, round {self.number + 1}: {text}")

    def name(self, name: str) -> str:
        """A name of a pod that was not used before."""
        return f"{name}-{self.number}-{type(self.subject).__name__.lower()}"

    def keep(self, key: str, nanoseconds: float) -> None:
        self.bench.series[f"api.{key}", self.subject.label].append(nanoseconds / MILLI)


async def through_api(made: World, plan: Plan, out: Output) -> None:
    """Measure all figures ``api``. A remark is added if there is no API server or the peer does not work with it."""
    out.say("starting an API server")
    try:
        async with api_server(made.home / "api") as server, Client.connect(server) as client:
            await client.prepare(server)
            await _rounds(made, server, _Bench(plan, client, out))
    except NotFound as error:
        out.remarks.append(f"pods through an API server were not measured: it {error}")


async def _rounds(made: World, server: EnvTest, bench: _Bench) -> None:
    candidates = _candidates(made, server)
    started = tuple(candidates)
    try:
        for number in range(bench.plan.api_rounds):
            # In alternating order, so that a drift of the machine favours no agent.
            for candidate in list(candidates)[:: -1 if number % 2 else 1]:
                if not await _take_turn(bench, candidate, number):
                    candidates.remove(candidate)
    finally:
        for candidate in started:
            await asyncio.to_thread(candidate.subject.destroy)
        bench.out.figures.extend(
            Figure(key, label, "ms", tuple(values)) for (key, label), values in bench.series.items()
        )


def _candidates(made: World, server: EnvTest) -> list[_Candidate]:
    kubeconfig = server.node_kubeconfig(NODE)
    ours = Agent(made.home / "node", made.server.socket, made.node_cgroups[0], WHOLE, kubeconfig)
    found = [_Candidate(ours, made.server.endpoint)]
    if made.go is not None:
        go = made.go.as_node(made.home / "gonode", made.node_cgroups[1], kubeconfig)
        found.append(_Candidate(go, made.agents.endpoint))
    return found


async def _take_turn(bench: _Bench, candidate: _Candidate, number: int) -> bool:
    """Measure one agent. False: it does not work with this API server; a remark is added."""
    subject = candidate.subject
    async with CriClient.connect(candidate.endpoint) as cri:
        # It does not subscribe to events, which would cost the runtime CPU time.
        turn = _Turn(bench, subject, Observer(cri), number)
        turn.say("starting")
        try:
            if not await _warm_up(turn):
                return False
            for kind, build in _KINDS.items():
                await _one_at_a_time(turn, kind, build)
            for count in bench.plan.at_once:
                await _at_once(turn, count)
        finally:
            turn.say("stopping")
            await bench.client.forget_all()
            await asyncio.to_thread(subject.stop)
            await remove_sandboxes(cri)
    return True


async def _warm_up(turn: _Turn) -> bool:
    """Start the agent and a first pod. If this fails for the peer, a remark is added and the result is False."""
    client, name = turn.bench.client, turn.name("first")
    trouble = ""
    try:
        await asyncio.to_thread(turn.subject.start)
        await client.node_ready(_READY_SECONDS)
        await client.create(served(name))
        try:
            await client.running([name], _FIRST_SECONDS)
        except Permanent:
            trouble = await client.trouble(name)
            raise
        await client.delete(name)
        await client.gone([name], _SECONDS)
    except PykubeletError as error:
        if not isinstance(turn.subject, GoKubelet):
            raise
        version = await client.version()
        turn.bench.out.remarks.append(
            f"the Go kubelet ({turn.subject.version()}) runs no pods with this API server ({version}), so it was not"
            f" measured as a node: {trouble or error}"
        )
        return False
    return True


async def _one_at_a_time(turn: _Turn, kind: str, build: Build) -> None:
    client, pods = turn.bench.client, turn.bench.plan.api_pods
    for index in range(pods):
        turn.say(f"{kind} pod {index + 1} of {pods}")
        name = turn.name(f"{kind}-{index:02}")
        begin = await client.create(build(name))
        seen = (await client.running([name], _SECONDS))[name]
        turn.keep(f"{kind}.running", seen - begin)
        containers = await turn.observer.client.list_containers()
        turn.keep(f"{kind}.started", main_start(await turn.observer.runs(containers, [name]), name) - begin)
        # Spread over a second; otherwise every deletion would come at the same point of an agent's relist period.
        await asyncio.sleep(_SETTLE_SECONDS + index / pods)
        asked = await client.delete(name)
        turn.keep(f"{kind}.gone", (await client.gone([name], _SECONDS))[name] - asked)


async def _at_once(turn: _Turn, count: int) -> None:
    client = turn.bench.client
    names = [turn.name(f"many-{count}-{index:03}") for index in range(count)]
    turn.say(f"{count} pods at once")
    begins = await _all(client.create(served(name)) for name in names)
    seen = await client.running(names, _MANY_SECONDS)
    for name, begin in zip(names, begins, strict=True):
        turn.keep(f"{count}.running", seen[name] - begin)
    turn.keep(f"{count}.wall", max(seen.values()) - min(begins))
    await asyncio.sleep(turn.bench.plan.settle_seconds)
    turn.say(f"deleting {count} pods")
    asked = await _all(client.delete(name) for name in names)
    gone = await client.gone(names, _MANY_SECONDS)
    turn.keep(f"{count}.delete_wall", max(gone.values()) - min(asked))


async def _all(calls: Iterable[Coroutine[None, None, int]]) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call, name="request") for call in calls]
    return [task.result() for task in tasks]
