"""The process that holds a shared PID namespace open and reaps what is orphaned in it. Pure."""

from collections.abc import Mapping

from pykubelet.criserver.spec.types import OCI_VERSION, Json
from pykubelet.criserver.spec.userns import mappings
from pykubelet.criserver.types import IdMap

_PROGRAM = "/init"


def build_infra(
    *,
    program: str,
    rootfs: str,
    cgroup: str,
    namespaces: Mapping[str, str],
    oom_score: int,
    ids: IdMap | None = None,
) -> Json:
    """``config.json`` of the infra process: a static program in an otherwise empty, read-only root, without rights."""
    joined = [{"type": kind, "path": path} for kind, path in namespaces.items()]
    hard = ["nosuid", "noexec", "nodev"]
    nobody = 65535 if ids is None else min(65535, ids.uids - 1, ids.gids - 1)
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": nobody, "gid": nobody},
            "args": [_PROGRAM, "-P"],
            "env": ["PATH=/"],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": True,
            "oomScoreAdj": oom_score,
        },
        "root": {"path": rootfs, "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": hard},
            {"destination": _PROGRAM, "type": "bind", "source": program, "options": ["bind", "ro", "nosuid", "nodev"]},
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "cpu": {"shares": 2}},
            "namespaces": [{"type": "mount"}, {"type": "pid"}, *joined],
            **({} if ids is None else mappings(ids)),
        },
    }
