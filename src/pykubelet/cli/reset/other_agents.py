"""Other agents on this machine, whose pods a reset must not meet."""

from pathlib import Path

from pykubelet.base.errors import Conflict, PykubeletError
from pykubelet.cli.client.agent_socket import DEFAULT_SOCKET, running_agents
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.linux.sockets import listener


def check_others(own: Path, cgroup_root: str) -> None:
    """Refuse a reset that would take cgroups and network from the pods of another running agent.

    That happens when the flags of its directories are forgotten. ``own`` is the socket of the agent that is reset,
    ``cgroup_root`` its setting. Conflict names the other agent.
    """
    default = [DEFAULT_SOCKET] if listener(DEFAULT_SOCKET) else []
    for socket in (*default, *running_agents()):
        if socket != own and _cgroup_root(socket) == _normal(cgroup_root):
            raise Conflict(
                f"another agent runs, at {socket}, with pods in the same cgroups; to reset that one, give reset the "
                "flags --root-dir, --run-dir and --container-log-dir that it was started with, or else stop it before"
            )


def _cgroup_root(socket: Path) -> str | None:
    """Return the setting of a running agent; None: it does not tell."""
    try:
        fields = LocalApi(socket).get("/pykubelet/v1/config")["fields"]
        return next(_normal(str(each["inForce"])) for each in fields if each["field"] == "cgroupRoot")
    except (PykubeletError, LookupError, TypeError, StopIteration):
        return None


def _normal(cgroup_root: str) -> str:
    return f"/{cgroup_root.strip('/')}"
