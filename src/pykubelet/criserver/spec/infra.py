"""The process that holds a shared PID namespace open and reaps what is orphaned in it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.criserver.spec.types import OCI_VERSION, Json
from pykubelet.criserver.spec.userns import mappings
from pykubelet.criserver.types import IdMap

_PROGRAM = "/init"


@dataclass(frozen=True, slots=True)
class InfraProgram:
    """What runs, and from where."""

    args: tuple[str, ...]
    env: tuple[str, ...] = ("PATH=/",)
    cwd: str = "/"
    source: str = ""
    """A file of the node that is mounted as ``args[0]`` into an empty root; empty: the root is an image's."""


def node_program(path: str) -> InfraProgram:
    """An init of the node that is told to do nothing but reap (catatonit, or any with its flag ``-P``)."""
    return InfraProgram((_PROGRAM, "-P"), source=path)


def build_infra(
    *,
    program: InfraProgram,
    rootfs: str,
    cgroup: str,
    namespaces: Mapping[str, str],
    oom_score: int,
    ids: IdMap | None = None,
) -> Json:
    """``config.json`` of the infra process: one program in a read-only root, without rights."""
    joined = [{"type": kind, "path": path} for kind, path in namespaces.items()]
    hard, bound, own = ["nosuid", "noexec", "nodev"], ["bind", "ro", "nosuid", "nodev"], bool(program.source)
    nobody = 65535 if ids is None else min(65535, ids.uids - 1, ids.gids - 1)
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": nobody, "gid": nobody},
            "args": list(program.args),
            "env": list(program.env),
            "cwd": program.cwd,
            "capabilities": {},
            "noNewPrivileges": True,
            "oomScoreAdj": oom_score,
        },
        "root": {"path": rootfs, "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": hard},
            # crun refuses a root without /dev.
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "noexec", "mode=755"]},
            *(
                [{"destination": program.args[0], "type": "bind", "source": program.source, "options": bound}]
                if own
                else []
            ),
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "cpu": {"shares": 2}},
            "namespaces": [{"type": "mount"}, {"type": "pid"}, *joined],
            **({} if ids is None else mappings(ids)),
        },
    }
