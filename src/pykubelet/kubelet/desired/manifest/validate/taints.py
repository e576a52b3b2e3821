"""The API server's rules of the taints that a node registers with. Pure. Source: ``ValidateNodeSpec``."""

from collections.abc import Iterator, Sequence
from typing import Final

from pykubelet.kubelet.desired.manifest.validate.names import label_value, qualified_name
from pykubelet.models.core_v1 import Taint

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def wrong_taints(taints: Sequence[Taint], name: str) -> Iterator[str]:
    """Yield a message for each violated rule, for which the API server would refuse the node.

    It begins with the place in the field of this ``name``.
    """
    for index, taint in enumerate(taints):
        field = f"{name}[{index}]"
        for part, fault in (("key", qualified_name(taint.key)), ("value", label_value(taint.value))):
            if fault:
                yield f"{field}.{part}: {fault}"
        if taint.effect not in _EFFECTS:
            yield f"{field}.effect: {taint.effect!r} is not known; use one of {', '.join(_EFFECTS)}"
        if taint.time_added is not None:
            yield f"{field}.timeAdded: must not be set; omit it"
        if any((taint.key, taint.effect) == (other.key, other.effect) for other in taints[:index]):
            yield f"{field}: key {taint.key!r} with effect {taint.effect!r} is there already"
