"""Builds the spec of an infra process, which holds a shared PID namespace open and reaps its orphans. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.criserver.spec.spec_types import OCI_VERSION, Json
from pykubelet.criserver.spec.userns import mappings
from pykubelet.criserver.types import IdMap

_PROGRAM = "/init"


class InfraProgram(Struct, frozen=True):
    """The program of an infra process, and where it comes from."""

    args: tuple[str, ...]
    env: tuple[str, ...] = ("PATH=/",)
    cwd: str = "/"
    source: str = ""
    """A file of the node that is mounted as ``args[0]`` into an empty root; empty: the root is that of an image."""


def node_program(path: str) -> InfraProgram:
    """An init program of the node that only reaps (catatonit, or another one with the flag ``-P``)."""
    return InfraProgram((_PROGRAM, "-P"), source=path)


def build_infra(
    *,
    program: InfraProgram,
    rootfs: str,
    cgroup: str,
    namespaces: Mapping[str, str],
    oom_score: int,
    ids: IdMap | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: tuple[str, str] = ("", ""),
    hostname: str = "",
) -> Json:
    """Build ``config.json``: one program in a read-only root, as an unprivileged user without capabilities.

    ``labels``: the SELinux labels of its process and of its files. ``hostname``: that of a
    kernel of its own.
    """
    process_label, mount_label = labels
    joined = [{"type": kind, "path": path} for kind, path in namespaces.items()]
    hard, bound, own = ["nosuid", "noexec", "nodev"], ["bind", "ro", "nosuid", "nodev"], bool(program.source)
    unprivileged = 65535 if ids is None else min(65535, ids.uids - 1, ids.gids - 1)
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": unprivileged, "gid": unprivileged},
            "args": list(program.args),
            "env": list(program.env),
            "cwd": program.cwd,
            "capabilities": {},
            "noNewPrivileges": True,
            "oomScoreAdj": oom_score,
            **({"selinuxLabel": process_label} if process_label else {}),
        },
        "root": {"path": rootfs, "readonly": True},
        **({"hostname": hostname} if hostname else {}),
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": hard},
            # crun requires /dev in the root.
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "noexec", "mode=755"]},
            *(
                [{"destination": program.args[0], "type": "bind", "source": program.source, "options": bound}]
                if own
                else []
            ),
        ],
        "annotations": dict(annotations or {}),
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "cpu": {"shares": 2}},
            "namespaces": [{"type": "mount"}, {"type": "pid"}, *joined],
            **({} if ids is None else mappings(ids)),
            **({"mountLabel": mount_label} if mount_label else {}),
        },
    }
