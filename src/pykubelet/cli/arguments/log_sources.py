"""The logs of one or several containers: which ones the user means, and their lines."""

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.arguments.lookup import FoundPod, find_container
from pykubelet.cli.client.local_api import LocalApi


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log of one container."""

    pod: FoundPod
    container: str

    @property
    def prefix(self) -> bytes:
        """The prefix of its lines, as kubectl writes it."""
        return f"[pod/{self.pod.name}/{self.container}] ".encode()

    def lines(self, api: LocalApi, query: Mapping[str, object]) -> Iterator[bytes]:
        """Yield the lines. Errors as of :meth:`LocalApi.lines`."""
        path = f"/api/v1/namespaces/{self.pod.namespace}/pods/{self.pod.name}/log"
        return api.lines(path, **{**query, "container": self.container})


def log_sources(pods: Sequence[FoundPod], container: str | None, *, everything: bool) -> list[LogSource]:
    """Return a source for each pod's chosen container, or for all of its containers. NotFound: no such container."""
    if not everything:
        return [LogSource(pod, find_container(pod, container)) for pod in pods]
    return [LogSource(pod, str(each["name"])) for pod in pods for each in pod.containers]


def sequential(
    sources: Sequence[LogSource], api: LocalApi, query: Mapping[str, object]
) -> Iterator[tuple[LogSource, bytes | PykubeletError]]:
    """Yield the lines of one source after the other; an error of one does not keep the others back."""
    for source in sources:
        try:
            for line in source.lines(api, query):
                yield source, line
        except PykubeletError as error:
            yield source, error


def concurrent(
    sources: Sequence[LogSource], api: LocalApi, query: Mapping[str, object]
) -> Iterator[tuple[LogSource, bytes | PykubeletError]]:
    """Yield the lines of all sources as they arrive, until all have ended."""
    arrived: queue.Queue[tuple[LogSource, bytes | PykubeletError | None]] = queue.Queue(_WAITING_LINES)

    def read(source: LogSource) -> None:
        for _, line in sequential([source], api, query):
            arrived.put((source, line))
        arrived.put((source, None))

    for source in sources:
        threading.Thread(target=read, args=(source,), name=f"log-{source.container}", daemon=True).start()
    left = len(sources)
    while left:
        source, line = arrived.get()
        if line is None:
            left -= 1
        else:
            yield source, line


_WAITING_LINES = 1000
"""Lines that wait to be printed; then the agent is read more slowly."""
