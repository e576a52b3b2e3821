"""Hostile containers and clients. Each act starts the attack on entry and removes its cause on exit."""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks.faults import acts_daemons as daemons
from benchmarks.faults import pods
from benchmarks.faults.agents import NodeAgent
from benchmarks.faults.judge import WantedPod
from benchmarks.faults.node import Node
from pykubelet.base.errors import PykubeletError
from pykubelet.base.http.upgrade import request_head, request_upgrade
from pykubelet.base.spdy import SpdyConnection, StreamLink
from pykubelet.linux import procfs
from pykubelet.testing.agent import wait_for
from pykubelet.testing.patience import PATIENCE

_READY_SECONDS = 120.0
_FILES_PER_SECOND = 1000
"""As slow as a container may be that creates files, on a machine that does other work: this is only preparation."""
_RUNS_SECONDS = 30.0
_RESTARTED_SECONDS = 30.0
_AT_ONCE = 20
_SESSION_SECONDS = 20.0
_DEEP = 2000
_ZOMBIES = 80
_ENOUGH_SESSIONS = 0.5
"""Share of the sessions below which the fault counts as missed; on a busy machine some get no answer in time."""
_REWRITES_PER_SECOND = 1000
_LEAST_REWRITES = 0.5
"""Share of the rewrites that are made although it takes longer than planned, on a busy machine."""
_REWRITTEN = 50
"""Number of manifests that are rewritten."""

Script = Callable[[Node, str], str]
"""Builds a shell script from a node and the name of the pod."""


def fork_bomb(node: Node, name: str) -> str:
    """A fork bomb: tries to start more processes than the pod may have."""
    return "bomb() { bomb | bomb & }; while :; do bomb; sleep 0.2; done 2>/dev/null"


def foreign_names(node: Node, name: str) -> str:
    """Process names that are not valid UTF-8, or look like other fields of /proc/PID/stat."""
    other = "sh -c \"printf ') R 1\\n\\377' >/proc/self/comm; sleep 3600\" & "
    return other + "printf 'caf\\303' >/proc/$$/comm; trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"


def foreign_marks(node: Node, name: str) -> str:
    """A stream of new processes that have the runtime server's mark in their environment."""
    marks = node.runtime.home / "run" / "marks"
    mark = f"PYKUBELET_CRISERVER={marks.read_text().split()[-1] if marks.exists() else 'unknown'}"
    return f"while :; do {mark} sleep 0.05 & {mark} sleep 0.03; done"


def _pose(node: Node, name: str, posed: tuple[bytes, ...]) -> str:
    """A process that writes another command line over its own."""
    line = b"".join(word + b"\0" for word in posed)
    # A line as long as the other one, which the process replaces in its memory; field 48 of `stat` is its address.
    padding = "x" * (len(line) - len("sh /tmp/pose  "))
    octal = "".join(f"\\{byte:03o}" for byte in line)
    return (
        f"printf '{octal}' >/tmp/line; cat >/tmp/pose <<'END'\n"
        "read -r stat </proc/self/stat; pid=${stat%% *}; set -- ${stat##*) }; shift 45; exec 9<>/proc/self/mem\n"
        "dd if=/tmp/line bs=1 seek=$1 conv=notrunc >&9\n"
        # Not by "$$", which Kubernetes makes "$" of.
        f"cmp /proc/$pid/cmdline /tmp/line && touch /notes/{name}.ready\n"
        "while :; do sleep 1; done\nEND\n"
        f"sh /tmp/pose {padding} & wait"
    )


def endless_log(node: Node, name: str) -> str:
    """An endless log: a gigabyte of output per minute."""
    return (
        "head -c 999 /dev/zero | tr '\\0' x >/tmp/line; echo >>/tmp/line; "
        "for i in $(seq 1667); do cat /tmp/line; done >/tmp/lines; while :; do cat /tmp/lines; sleep 0.1; done"
    )


def many_files(node: Node, name: str) -> str:
    """A very large number of files in the container's writable layer."""
    count = max(1, node.options.files // 1000)
    return (
        f"mkdir /many; cd /many; i=0; while [ $i -lt {count} ]; do mkdir $i; cd $i; seq 1000 | xargs touch; cd ..; "
        f"i=$((i+1)); done; touch /notes/{name}.ready; sleep 3600"
    )


def deep_directories(node: Node, name: str) -> str:
    """Nested directories whose path is longer than PATH_MAX."""
    # The shell's `cd` stores the whole path, which would become too long.
    return (
        f"cd /tmp; i=0; while [ $i -lt {_DEEP} ]; do mkdir deeper && mv top deeper/ 2>/dev/null; mv deeper top; "
        f"i=$((i+1)); done; touch /notes/{name}.ready; sleep 3600"
    )


def zombies(node: Node, name: str) -> str:
    """Zombie processes, up to the limit of processes."""
    return f"i=0; while [ $i -lt {_ZOMBIES} ]; do (sleep 0.01 & exec sleep 3600) & i=$((i+1)); done; sleep 3600"


def hostile(
    script: Script, *, restart: bool = True, ready: bool = False, while_down: Callable[[], None] = lambda: None
) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A container runs the script, the runtime is killed and restarted meanwhile, then the pod is removed.

    ``ready``: the script reports when it is done. ``while_down`` is called before the runtime is started again.
    """

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        name = node.fresh("hostile")
        document = pods.manifest("plain", name, str(node.notes))
        begins = f"echo run >>/notes/{name}.main; {script(node, name)}"
        document["spec"]["containers"] = [pods.container("main", begins)]
        node.add(name, document, WantedPod(("main",)))
        mark = node.notes / f"{name}.ready"
        try:
            wait_for(lambda: bool(node.containers(name)), _RUNS_SECONDS, lambda: f"{name} does not run")
            if ready:
                patience = PATIENCE * (_READY_SECONDS + node.options.files / _FILES_PER_SECOND)
                wait_for(mark.exists, patience, lambda: f"{name} is not ready after {patience:g} s")
            if restart:
                node.runtime.signal(signal.SIGKILL)
                while_down()
                node.start_runtime()
            yield
        finally:
            node.remove(name)
            mark.unlink(missing_ok=True)

    return act


@contextlib.contextmanager
def posed_monitor(node: Node) -> Iterator[None]:
    """A process has the command line of the victim's monitor, which is killed with its container while no runtime runs.

    The container has ended, so it must be restarted, although a process that looks like its monitor is still there.
    """
    victim, ended = node.victim, node.containers(node.victim)["main"]
    monitor, inside = daemons.monitor_pid(node), daemons.container_pid(node)
    posed = procfs.arguments(monitor) or ()

    def die() -> None:
        for pid in (monitor, inside):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    with hostile(lambda node, name: _pose(node, name, posed), ready=True, while_down=die)(node):
        yield
        try:
            message = "not restarted while a process posed as its monitor"
            wait_for(lambda: node.containers(victim).get("main", ended) != ended, _RESTARTED_SECONDS, lambda: message)
        except AssertionError as error:
            node.complaints.append(f"{victim}: {error}")


@contextlib.contextmanager
def log_flood(node: Node) -> Iterator[None]:
    with hostile(endless_log, restart=False)(node):
        yield
        time.sleep(node.options.log_seconds)


@contextlib.contextmanager
def rewritten_manifests(node: Node) -> Iterator[None]:
    """Files are rewritten a thousand times per second: half are not valid manifests, half are unchanged pods."""
    notes, names = str(node.notes), [node.fresh(f"rewritten{number}") for number in range(4)]
    documents = {name: pods.manifest("plain", name, notes) for name in names}
    for name in names:
        node.add(name, documents[name], pods.wanted("plain"))
    junk = [f"junk-{number}" for number in range(_REWRITTEN - len(names))]
    end, count, begin = time.monotonic() + node.options.rewrite_seconds, 0, time.monotonic()
    least = node.options.rewrite_seconds * _REWRITES_PER_SECOND * _LEAST_REWRITES
    try:
        while time.monotonic() < end or count < least:
            number = count % _REWRITTEN
            if number < len(names):
                node.agent.write(names[number], documents[names[number]])
            else:
                node.agent.write(junk[number - len(names)], _junk(count))
            count += 1
            time.sleep(max(0.0, begin + count / _REWRITES_PER_SECOND - time.monotonic()))
        yield
    finally:
        for name in junk:
            node.agent.remove(name)


def _junk(number: int) -> dict[str, object]:
    """A document that is not a pod, or an invalid pod."""
    kinds: tuple[dict[str, object], ...] = (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"bad_{number}"}},
        {"a": number},
        {},
    )
    return kinds[number % len(kinds)]


@contextlib.contextmanager
def dropped_sessions(node: Node) -> Iterator[None]:
    """Exec sessions are opened, and their clients are killed."""
    wanted = node.options.sessions
    opened = asyncio.run(_sessions(node.agent, node.agent.exec_path(node.victim), wanted))
    if opened < wanted * _ENOUGH_SESSIONS:
        node.complaints.append(f"only {opened} of {wanted} sessions were opened")
    yield


async def _sessions(agent: NodeAgent, path: str, count: int) -> int:
    """Return how many of the sessions were opened."""
    room, opened = asyncio.Semaphore(_AT_ONCE), Counter[int]()

    async def one() -> None:
        async with room:
            with contextlib.suppress(ConnectionError, TimeoutError, PykubeletError):
                await _vanish(agent, path, opened)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(), name=f"session {number}")
    return opened[101]


async def _vanish(agent: NodeAgent, path: str, answers: Counter[int]) -> None:
    """A client that is killed as soon as its command runs. Counts the agent's answers by their codes."""
    async with asyncio.timeout(_SESSION_SECONDS):
        reader, writer = await agent.connect()
        headers = [("Host", "localhost"), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
        answer = await request_upgrade(
            reader, writer, request_head("POST", path, [*headers, ("X-Stream-Protocol-Version", "v4.channel.k8s.io")])
        )
        if answer.status != 101:
            answers[answer.status] += 1
            writer.close()
            return
        async with SpdyConnection.over(StreamLink(reader, writer)) as connection:
            for kind in ("error", "stdin", "stdout"):
                await connection.open({"streamtype": kind})
            answers[101] += 1
            writer.transport.abort()
