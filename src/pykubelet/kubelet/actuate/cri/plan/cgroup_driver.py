"""The cgroup driver in force if the agent and the runtime have different ones: the runtime's (KEP-4033). Pure."""

from typing import Final

from pykubelet.pb import runtime_v1_pb2 as pb

_NAMES: Final = {pb.CGROUPFS: "cgroupfs", pb.SYSTEMD: "systemd"}


def other_driver(reply: pb.RuntimeConfigResponse, used: str) -> str | None:
    """Return the driver of the runtime if the agent uses another one; None: it is the same, or not reported."""
    reported = _NAMES.get(reply.linux.cgroup_driver, "") if reply.HasField("linux") else ""
    return reported if reported not in ("", used) else None
