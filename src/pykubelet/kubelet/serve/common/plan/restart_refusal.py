"""Whether a restart or retry that a client requests is possible for a pod. Pure."""

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.kubelet.types.podspec import find_container, is_sidecar
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Pod

_ALWAYS = "Always"


def check_restart(pod: Pod, container: str) -> None:
    """Raise unless the pod, or the container if it is not empty, can be restarted.

    Only what always runs again can be: of others, a stop would be the end. NotFound: there is no such container.
    Conflict: the pod is ending or has ended, or the container is not restarted after its end.
    """
    check_alive(pod)
    name = pod.metadata.name
    if not container:
        if pod.spec.restart_policy not in ("", _ALWAYS):
            policy = pod.spec.restart_policy
            raise Conflict(
                f"pod {name} has restartPolicy {policy}: its end would be final; delete it and apply it again"
            )
        return
    found = find_container(pod, container)
    if found is None:
        raise NotFound(f"pod {name} has no container {container!r}")
    kind, spec = found
    if kind is ContainerKind.EPHEMERAL:
        raise Conflict(f"container {container} of pod {name} is an ephemeral one, which runs once")
    if kind is ContainerKind.INIT and not is_sidecar(spec):
        raise Conflict(f"container {container} of pod {name} is an init container; restart the pod")
    policy = spec.restart_policy or pod.spec.restart_policy or _ALWAYS
    if policy != _ALWAYS:
        raise Conflict(
            f"container {container} of pod {name} has restartPolicy {policy}: its end would be final; "
            "delete the pod and apply it again"
        )


def check_alive(pod: Pod) -> None:
    """Raise Conflict if the pod is ending or has ended."""
    name, phase = pod.metadata.name, pod.status.phase
    if pod.metadata.deletion_timestamp is not None:
        raise Conflict(f"pod {name} is being deleted")
    if phase in ("Succeeded", "Failed"):
        raise Conflict(f"pod {name} has ended ({phase}); delete it and apply it again")
