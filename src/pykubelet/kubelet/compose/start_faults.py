"""What the agent finds wrong with the machine at its start, for events of the node."""

from pathlib import Path

from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.actuate.volumes import SWAPPED_VOLUMES, memory_volumes_may_swap
from pykubelet.kubelet.types.reports.events import Reason


def start_faults(node: NodeFacts, root: Path) -> list[tuple[str, str]]:
    """Return reasons and texts of warnings. ``root``: directory in which volumes are. Blocks briefly."""
    found = []
    fault = node.resolv_conf.fault()
    if fault is not None:
        found.append((Reason.CHECK_LIMITS_FOR_RESOLV_CONF, fault))
    if memory_volumes_may_swap(root):
        found.append((Reason.POSSIBLE_MEMORY_BACKED_VOLUMES_ON_DISK, SWAPPED_VOLUMES))
    return found
