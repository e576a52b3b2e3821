"""The reasons of a pod's actions, as decisions that ``explain`` shows. Pure."""

from collections.abc import Iterable, Iterator

from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.kubelet.types.restart import matching_rule
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus
from pykubelet.models.core_v1 import Pod


def of_container(
    pod: Pod, container: AnyContainer, attempt: ContainerStatus | None, *, start: bool, kill: ContainerKill | None
) -> Decision:
    """Return what is done with a container, and why; ``attempt`` None: the runtime has none of it."""
    name = container.name
    if kill is not None:
        return Decision(Topic.CONTAINER, name, "restart" if start else "stop", kill.message)
    if start:
        return Decision(Topic.CONTAINER, name, "start", of_attempt(pod, container, attempt))
    action = "keep" if attempt is not None and attempt.state is ContainerState.RUNNING else "leave"
    return Decision(Topic.CONTAINER, name, action, of_attempt(pod, container, attempt), idle=True)


def of_attempt(pod: Pod, container: AnyContainer, attempt: ContainerStatus | None) -> str:
    """Return the state of a container that decides about its start, with the policy or rule that applies."""
    if pod.metadata.deletion_timestamp is not None:
        return "the pod is being deleted"
    if attempt is None:
        return "it has not been created yet"
    match attempt.state:
        case ContainerState.RUNNING:
            return "it runs as specified"
        case ContainerState.CREATED:
            return "it has been created, but not started"
        case ContainerState.UNKNOWN:
            return "the runtime does not know its state"
        case ContainerState.EXITED:
            how = f"exited with code {attempt.exit_code}"
            if attempt.reason == "OOMKilled":
                how += " (OOMKilled)"
            own = container.restart_policy
            rule = matching_rule(container, attempt.exit_code) if own else None
            if rule is not None:
                return f"{how}; its restart rule: {rule.action}"
            return f"{how}; restart policy {own or pod.spec.restart_policy or 'Always'}"


def of_init(
    pod: Pod,
    current: Iterable[tuple[AnyContainer, ContainerStatus | None]],
    start: Iterable[AnyContainer],
    kill: Iterable[ContainerKill],
) -> Iterator[Decision]:
    """Yield what is done with init containers and sidecars; ``current`` has each with its attempt in the sandbox."""
    started = {container.name for container in start}
    killed = {each.name: each for each in kill}
    for container, attempt in current:
        yield of_container(pod, container, attempt, start=container.name in started, kill=killed.get(container.name))


def of_waiting(containers: Iterable[AnyContainer]) -> Iterator[Decision]:
    """Yield what is done with ordinary containers before the pod is initialized."""
    for container in containers:
        yield Decision(Topic.CONTAINER, container.name, "wait", "init containers have not completed", idle=True)


def of_kills(kills: Iterable[ContainerKill]) -> tuple[Decision, ...]:
    """Return the reasons of containers that are only stopped."""
    return tuple(Decision(Topic.CONTAINER, kill.name, "stop", kill.message) for kill in kills)


def of_end(why: str) -> tuple[Decision, ...]:
    """Return the decision that the pod has ended."""
    return (Decision(Topic.POD, "", "stop", why),)
