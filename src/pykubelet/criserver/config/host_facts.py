"""Facts of the machine on which the features of containers depend."""

import platform
import shutil
from pathlib import Path

from pykubelet.criserver.spec import Host
from pykubelet.criserver.spec.security.apparmor import PARSER
from pykubelet.criserver.spec.security.capabilities import names_of
from pykubelet.criserver.spec.spec_types import LEAST_OOM_SCORE
from pykubelet.linux import cgroups, procfs, selinux, system
from pykubelet.linux.filesystems import idmap


def host_facts() -> Host:
    """Read the facts of this machine. Blocking."""
    masks = procfs.status("self")
    assert masks is not None, "this process runs"
    capabilities = names_of(int(masks["CapBnd"], 16) & int(masks["CapPrm"], 16))
    layout = cgroups.detect()
    memory = layout.controllers.get("memory")
    swap = system.own_cgroup_has("memory.swap.max")
    if memory is not None:
        swap = (memory / "memory.memsw.limit_in_bytes").exists()
    hugetlb = cgroups.has_controller(layout, "hugetlb")
    labels = selinux.container_labels()
    own_score = int(procfs.machine("self/oom_score_adj"))
    return Host(
        capabilities=capabilities,
        cgroup_version=layout.version,
        least_oom_score=LEAST_OOM_SCORE if "CAP_SYS_RESOURCE" in capabilities else own_score,
        seccomp="Seccomp" in masks,
        oom_score=own_score,
        # The OCI runtime fails on limits of a controller that is not there.
        hugepage_sizes=frozenset(_page_size(pages.size) for pages in system.hugepages()) if hugetlb else frozenset(),
        swap=swap,
        user_namespaces=idmap.kernel_maps_overlays() and shutil.which("unshare") is not None,
        recursive_read_only=idmap.kernel_is((5, 12)),
        apparmor=system.app_armor_enabled(),
        apparmor_parser=shutil.which(PARSER) is not None,
        selinux=bool(labels.process),
        selinux_process=labels.process,
        selinux_files=labels.files,
        selinux_problem=labels.problem,
        architecture=platform.machine(),
        kernel=idmap.kernel_version(),
    )


def cgroup_of(parent: str, name: str, systemd: bool) -> str:
    """The ``cgroupsPath`` of a container or infra process below its pod's cgroup."""
    if systemd:
        slice_ = Path(parent).name if parent.endswith(".slice") else "system.slice"
        return f"{slice_}:cri-pykubelet:{name}"
    return f"{parent.rstrip('/') or '/pykubelet'}/{name}"


def kernel_cgroup(name: str) -> str:
    """The kernel's path of a cgroup that ``cgroup_of`` or CRI's ``cgroup_parent`` names; a path is returned as is."""
    if ":" in name:
        slice_, prefix, rest = name.split(":", 2)
        return f"{cgroups.slice_path(slice_)}/{prefix}-{rest}.scope"
    return cgroups.slice_path(Path(name).name) if name.endswith(".slice") else name


def _page_size(size: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size}B"
