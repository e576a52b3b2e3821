"""The process that holds a shared PID namespace open and reaps what is orphaned in it. Pure."""

from collections.abc import Mapping

from pykubelet.criserver.spec.types import OCI_VERSION, Json

_PROGRAM = "/init"


def build_infra(*, program: str, rootfs: str, cgroup: str, namespaces: Mapping[str, str], oom_score: int) -> Json:
    """``config.json`` of the infra process: a static program in an otherwise empty, read-only root, without rights."""
    joined = [{"type": kind, "path": path} for kind, path in namespaces.items()]
    hard = ["nosuid", "noexec", "nodev"]
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": 65535, "gid": 65535},
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
        },
    }
