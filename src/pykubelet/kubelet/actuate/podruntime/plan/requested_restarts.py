"""Attempts of a pod's containers that a requested restart replaces, and the end of the request. Pure.

A request names containers, or the whole pod. With the first state of the runtime that the worker reads afterwards it
is bound to the attempts that exist then. From there on it can only replace these: a repeated sync, or an agent that
was killed in between, never restarts a container twice.
"""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.actuate.podruntime.plan.restart import current
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus


class RestartRequest(Struct, frozen=True):
    """Request to restart a pod, or one of its containers."""

    containers: frozenset[str] = frozenset()
    """Names of containers that are not bound to attempts yet."""
    pod: bool = False
    """The whole pod, not bound yet: all containers, init containers included, in a new sandbox."""
    waiting: bool = False
    """All containers that wait for the end of a back-off, not bound yet."""
    attempts: frozenset[ContainerID] = frozenset()
    """The attempts to replace."""
    sandbox: SandboxID | None = None
    """The sandbox to replace."""

    @property
    def empty(self) -> bool:
        """Whether nothing is left to do."""
        return self == RestartRequest()


def merged(before: RestartRequest | None, added: RestartRequest) -> RestartRequest:
    """Return both requests as one."""
    if before is None:
        return added
    return replace(
        before,
        containers=before.containers | added.containers,
        pod=before.pod or added.pod,
        waiting=before.waiting or added.waiting,
    )


def bound(request: RestartRequest, status: PodRuntimeStatus) -> RestartRequest:
    """Return the request bound to the attempts of this state, without those that have been replaced since.

    A container that does not exist, or was created and not started yet, is about to start and is not restarted.
    """
    names = {c.name for c in status.containers}
    newest = {name: attempt for name in names if (attempt := current(status, name)) is not None}
    attempts = set(request.attempts & {attempt.id for attempt in newest.values()})
    for name, attempt in newest.items():
        if attempt.state is ContainerState.CREATED:
            continue
        waits = request.waiting and attempt.state is ContainerState.EXITED
        if request.pod or waits or name in request.containers:
            attempts.add(attempt.id)
    last = status.sandboxes[0].id if status.sandboxes else None
    sandbox = last if request.pod or (request.sandbox is not None and request.sandbox == last) else None
    return RestartRequest(attempts=frozenset(attempts), sandbox=sandbox)


def marked(status: PodRuntimeStatus, request: RestartRequest) -> PodRuntimeStatus:
    """Return the state with the attempts and the sandbox marked that a bound request replaces."""
    containers = tuple(_mark(c, request.attempts) for c in status.containers)
    sandboxes = tuple(replace(s, restart_requested=True) if s.id == request.sandbox else s for s in status.sandboxes)
    return replace(status, containers=containers, sandboxes=sandboxes)


def _mark(container: ContainerStatus, attempts: Collection[ContainerID]) -> ContainerStatus:
    return replace(container, restart_requested=True) if container.id in attempts else container
