"""Labels and annotations of sandboxes and containers, by which the agent finds its objects after a restart.

They have everything that is needed to stop a container whose pod object is gone. Names and contents are those of the
Go kubelet, so that crictl shows pods correctly and either agent can take over the other's containers.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.image_reference import MAX_LENGTH
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models import codec
from pykubelet.models.core_v1 import ContainerPort, LifecycleHandler, Pod

T = TypeVar("T")

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

DELETION_GRACE_PERIOD = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE_PERIOD = "io.kubernetes.pod.terminationGracePeriod"
CONTAINER_HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS = "io.kubernetes.container.ports"

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


class ParsedContainerLabels(Struct, frozen=True):
    """Parsed labels and annotations of a container: its pod, and facts of the spec that it was created from."""

    ref: PodRef
    name: str
    hash: str = ""
    restart_count: int = 0
    deletion_grace_period: int | None = None
    """Seconds; None if the pod was not being deleted."""
    termination_grace_period: int | None = None
    """Seconds, from the pod's spec."""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """Labels of the sandbox: the pod's own and those that identify the pod."""
    return {**pod.metadata.labels, **_pod_labels(pod)}


def sandbox_annotations(pod: Pod) -> dict[str, str]:
    """Annotations of the sandbox: the pod's own."""
    return dict(pod.metadata.annotations)


def container_labels(pod: Pod, container: AnyContainer) -> dict[str, str]:
    """Labels that identify the container and its pod."""
    return {**_pod_labels(pod), CONTAINER_NAME: container.name}


def container_annotations(
    pod: Pod, container: AnyContainer, restart_count: int, requested: Mapping[str, str]
) -> dict[str, str]:
    """Annotations of one start of a container; they override `requested`, those of device plugins."""
    written = {
        **requested,
        CONTAINER_HASH: container_hash(container),
        RESTART_COUNT: str(restart_count),
        TERMINATION_MESSAGE_PATH: container.termination_message_path,
        TERMINATION_MESSAGE_POLICY: container.termination_message_policy,
    }
    deletion = pod.metadata.deletion_grace_period_seconds
    if deletion is not None:
        written[DELETION_GRACE_PERIOD] = str(deletion)
    if pod.spec.termination_grace_period_seconds is not None:
        written[TERMINATION_GRACE_PERIOD] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle and container.lifecycle.pre_stop:
        written[PRE_STOP_HANDLER] = codec.encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        written[CONTAINER_PORTS] = codec.encode(container.ports).decode()
    return written


def parse_pod_ref(labels: Mapping[str, str]) -> PodRef | None:
    """Pod of a sandbox or container; None if it was not created by a Kubernetes agent."""
    uid = labels.get(POD_UID)
    return PodRef(labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, ""), PodUID(uid)) if uid else None


def parse_container(labels: Mapping[str, str], annotations: Mapping[str, str]) -> ParsedContainerLabels | None:
    """Parse :func:`container_labels` and :func:`container_annotations`.

    None if the container was not created by a Kubernetes agent. Missing or invalid values (of another agent or an older
    version) become defaults: it must be possible to stop a container whatever its annotations are.
    """
    ref = parse_pod_ref(labels)
    if ref is None:
        return None
    return ParsedContainerLabels(
        ref,
        labels.get(CONTAINER_NAME, ""),
        hash=annotations.get(CONTAINER_HASH, ""),
        restart_count=_number(annotations.get(RESTART_COUNT)) or 0,
        deletion_grace_period=_number(annotations.get(DELETION_GRACE_PERIOD)),
        termination_grace_period=_number(annotations.get(TERMINATION_GRACE_PERIOD)),
        termination_message_path=annotations.get(TERMINATION_MESSAGE_PATH, ""),
        termination_message_policy=annotations.get(TERMINATION_MESSAGE_POLICY, ""),
        pre_stop=_object(annotations.get(PRE_STOP_HANDLER), LifecycleHandler),
        ports=_object(annotations.get(CONTAINER_PORTS), tuple[ContainerPort, ...]) or (),
    )


def container_hash(container: AnyContainer) -> str:
    """Hash of a container's spec, to detect changes: only name and image count.

    Nothing else of a container may change in a running pod. The value is that of the Go kubelet, so that a node can
    change agents without restarting containers.
    """
    image = container.image
    if len(image) > MAX_LENGTH:  # no container has such an image, so its hash need not be the Go kubelet's
        image = hashlib.sha256(image.encode(errors="surrogatepass")).hexdigest()
    return _name_and_image_hash(container.name, image)


@functools.lru_cache(maxsize=4096)
def _name_and_image_hash(name: str, image: str) -> str:
    text = codec.encode({"image": image, "name": name}).decode()
    # Go's JSON encoder escapes characters that are special in HTML.
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    # FNV-1a (32 bit) over the output of Go's debug printer for the bytes of that JSON text.
    value = _FNV_OFFSET
    for byte in f"([]uint8)[{' '.join(map(str, text.encode()))}]".encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return f"{value:x}"


def _pod_labels(pod: Pod) -> dict[str, str]:
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _object(text: str | None, target: type[T]) -> T | None:
    try:
        return None if text is None else codec.decode(text, target)
    except Invalid:
        return None
