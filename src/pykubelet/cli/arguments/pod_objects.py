"""The pods that the user names, as typed objects, for the commands that read more than a few of their fields."""

from collections.abc import Iterable

from pykubelet.cli.arguments.lookup import FoundPod
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod


def pod_object(found: FoundPod) -> Pod:
    """Return the typed object of a pod. Invalid: the agent's answer is no pod."""
    return from_builtins(found.item, Pod)


def pod_objects(found: Iterable[FoundPod]) -> list[Pod]:
    """Return the typed objects of pods. Invalid: as of :func:`pod_object`."""
    return [pod_object(each) for each in found]
