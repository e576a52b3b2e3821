"""Events for the owner of a pod about a blocking call that hangs, by the name of the call's owner. Pure.

Owners of calls are ``pod/UID``, ``pod/UID/PART`` or the name of a component.
"""

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID


def pod_of_call(owner: str) -> PodUID | None:
    """Return the pod for which a call works; None: it works for a component."""
    kind, _, rest = owner.partition("/")
    return PodUID(rest.partition("/")[0]) if kind == "pod" else None


def hung_message(owner: str, deadline: Seconds) -> str:
    """Return the text of the pod's event; the call should have ended within the ``deadline``."""
    part = owner.partition("/")[2].partition("/")[2]
    what = f"{part} of the pod" if part else "files of the pod"
    return (
        f"error syncing the pod: work on {what} has not ended within {deadline:g} s; "
        "a file system or device may not be responding"
    )
