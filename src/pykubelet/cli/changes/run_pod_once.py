"""Runs a pod to its end and shows its output."""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError
from pykubelet.cli.changes.agent_directory import directory_of
from pykubelet.cli.changes.check_sources import node_of
from pykubelet.cli.changes.manifest_files import STDIN
from pykubelet.cli.changes.manifest_input import read_objects
from pykubelet.cli.changes.pod_wait import TIMED_OUT, AwaitedPod, by_uid, wait_for_pods
from pykubelet.cli.changes.run_records import RunRecord, remove_leftovers
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.once_goals import exit_status, hopeless, started_containers
from pykubelet.cli.plan.pod_goals import deleted, reason_of
from pykubelet.cli.terminal import echo
from pykubelet.kubelet.desired.changes import Change, InputObject, ManifestDirectory
from pykubelet.kubelet.desired.manifest import ObjectKey, adopt, parse
from pykubelet.kubelet.desired.manifest.edit import with_restart_policy
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

_ENDED = ("Succeeded", "Failed")
_STREAMS = ("Stdout", "Stderr")
_LOG_END_SECONDS = 10.0
"""Limit for the rest of the logs after the pod's end."""


class _Stopped(BaseException):
    """A signal asks to stop; its number is the argument."""


def run_pod_once(api: LocalApi, file: Path, timeout: float | None) -> NoReturn:
    """Run the pod of a file, remove it, and exit with its status; ``timeout`` in seconds, None: no limit.

    PykubeletError: the file cannot be used, or the agent does not respond.
    """
    given = [_once(each) for each in read_objects([file], node_of(api))]
    pods = [each for each in given if isinstance(each.item.value, Pod)]
    if len(pods) != 1:
        raise Invalid(f"{'standard input' if str(file) == STDIN else file} has {len(pods)} pods; run-once needs one")
    directory = directory_of(api)
    for left in remove_leftovers(directory):
        echo(f"{left} of a run-once that was killed is removed", err=True)
    created: list[ObjectKey] = []
    records: list[RunRecord] = []
    uid = ""
    try:
        with _signals():
            uid = _create(directory, given, pods[0], created, records)
            status = _follow(api, uid, timeout)
    except _Stopped as stop:
        status = 128 + int(stop.args[0])
    except TimeoutError:
        echo(f"error: {pods[0].label} did not end within {timeout:g} s; it is stopped", err=True)
        status = TIMED_OUT
    finally:
        _remove(api, directory, created, uid)
        for record in records:
            record.forget()
    raise SystemExit(status)


def _once(given: InputObject) -> InputObject:
    """Return a pod with the restart policy Never if it has none. Invalid: it restarts for ever."""
    if not isinstance(given.item.value, Pod):
        return given
    text = with_restart_policy(given.text, "Never")
    item = parse(text.encode(), "run-once").objects[0]
    assert isinstance(item.value, Pod)
    if item.value.spec.restart_policy == "Always":
        raise Invalid(f"{given.label} has restartPolicy Always and never ends; write Never or OnFailure")
    return replace(given, item=item, text=text)


def _create(
    directory: ManifestDirectory,
    given: Sequence[InputObject],
    pod: InputObject,
    created: list[ObjectKey],
    records: list[RunRecord],
) -> str:
    """Put the objects into the manifest directory, and return the uid of the pod. Conflict: the pod exists.

    What is created, and its record, are added to ``created`` and ``records``, also if it fails.
    """
    origin = ""
    with directory.locked():
        if directory.find(pod.item.key) is not None:
            raise Conflict(f"{pod.label} exists already; delete it first, or rename the pod")
        new = [each for each in given if directory.find(each.item.key) is None]
        for each in given:
            directory.apply(each.item, each.text, write=False)
        records.append(RunRecord(directory, [each.item for each in new]))
        for each in given:
            # Before the write, so that a signal in between leaves nothing behind.
            if each in new:
                created.append(each.item.key)
            applied = directory.apply(each.item, each.text)
            if applied.change is Change.CONFIGURED:
                echo(f"{each.label} {applied.change}", err=True)
            origin = applied.origin if each is pod else origin
    assert isinstance(pod.item.value, Pod)
    return adopt(pod.item.value, pod.item.digest, Source.FILE, origin, directory.node_name).metadata.uid


def _follow(api: LocalApi, uid: str, timeout: float | None) -> int:
    """Show the pod's output until its end and return its status. TimeoutError: the limit has passed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    logs = _Logs(api)
    for kind, item in api.watch("/api/v1/pods", deadline, sendInitialEvents="true"):
        if kind == "BOOKMARK" or item["metadata"]["uid"] != uid:
            continue
        pod = from_builtins(item, Pod)
        if kind == "DELETED":
            raise NotFound(f"pod {pod.metadata.name} was removed by someone else")
        for name in started_containers(pod):
            logs.show(pod, name)
        if pod.status.phase in _ENDED:
            logs.join()
            return _report(pod, item)
        if why := hopeless(pod):
            echo(f"error: pod {pod.metadata.name} cannot start: {why}", err=True)
            return 1
    raise NotFound("the agent has stopped; nothing more is known of the pod")


def _report(pod: Pod, item: Any) -> int:
    status = exit_status(pod)
    if pod.status.phase == "Failed" and (pod.status.reason or not pod.status.container_statuses):
        echo(f"error: pod {pod.metadata.name} failed: {reason_of(item)}", err=True)
    return status


class _Logs:
    """Copies the logs of containers to the standard streams, each in a thread of its own."""

    def __init__(self, api: LocalApi) -> None:
        self._api = api
        self._threads: dict[str, list[threading.Thread]] = {}
        self._lock = threading.Lock()

    def show(self, pod: Pod, container: str) -> None:
        """Begin to copy the log of a container, unless that has begun."""
        if container in self._threads:
            return
        alone = len(pod.spec.containers) + len(pod.spec.init_containers) == 1
        prefix = b"" if alone else f"[{container}] ".encode()
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
        self._threads[container] = [
            threading.Thread(target=self._copy, args=(path, container, stream, prefix), name=stream, daemon=True)
            for stream in _STREAMS
        ]
        for thread in self._threads[container]:
            thread.start()

    def join(self) -> None:
        """Wait for the rest of the logs of a pod that has ended."""
        deadline = time.monotonic() + _LOG_END_SECONDS
        for threads in self._threads.values():
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _copy(self, path: str, container: str, stream: str, prefix: bytes) -> None:
        output: IO[bytes] = sys.stdout.buffer if stream == "Stdout" else sys.stderr.buffer
        try:
            for line in self._api.lines(path, container=container, follow="true", stream=stream):
                with self._lock:
                    output.write(prefix + line)
                    output.flush()
        except PykubeletError as error:
            echo(f"warning: log of {container}: {error}", err=True)
        except BrokenPipeError:
            pass  # the reader of the output has gone; the pod runs to its end


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Raise `_Stopped` in the block at SIGINT and SIGTERM."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _remove(api: LocalApi, directory: ManifestDirectory, created: Sequence[ObjectKey], uid: str) -> None:
    """Take out what was put into the directory, the pod first, and wait until the pod is gone."""
    with directory.locked():
        for key in reversed(created):
            with contextlib.suppress(NotFound):
                directory.remove(key)
    if uid:
        wait_for_pods(api, [AwaitedPod("the pod", by_uid(uid), deleted)], None)
