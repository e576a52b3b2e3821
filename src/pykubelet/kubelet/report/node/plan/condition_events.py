"""Events about the node when its conditions change; reasons and messages are those of the Go kubelet. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.models.core_v1 import NodeCondition

SCHEDULABLE: Final = {False: "NodeSchedulable", True: "NodeNotSchedulable"}
"""Event reason by whether the node is cordoned."""
REBOOTED: Final = "Rebooted"
_REASONS: Final[Mapping[tuple[str, str], str]] = {
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
}


def condition_events(reported: Mapping[str, str], conditions: Iterable[NodeCondition]) -> list[str]:
    """Return the event reasons for conditions that differ from ``reported`` (type → last status); at first all."""
    changed = [c for c in conditions if reported.get(c.type) != c.status]
    return [_REASONS[c.type, c.status] for c in changed if (c.type, c.status) in _REASONS]


def status_message(node: str, reason: str) -> str:
    """Return the message of a condition event."""
    return f"Node {node} status is now: {reason}"


def reboot_message(node: str, boot_id: str) -> str:
    """Return the message of the event after a reboot."""
    return f"Node {node} has been rebooted, boot id: {boot_id}"
