"""Opens what belongs to the machine: its facts, the programs that do the work, and the pod network."""

import logging
from dataclasses import replace
from functools import partial

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.cni import Network, NetworkConfig
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.config.machine import host_facts
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.directories import find_untraversable, make_directory
from pykubelet.criserver.machine import CgroupOomKills, Machine
from pykubelet.criserver.netns import Kind, PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime, RuntimeHandlers
from pykubelet.criserver.programs import Marks
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups.oom import OomCounter

_log = logging.getLogger(__name__)


def open_machine(settings: Settings, marks: Marks) -> Machine:
    """Inspect the machine. Permanent: a required program is not installed. Blocking."""
    host = host_facts()
    closed = find_untraversable(settings.root_filesystems, settings.sandboxes)
    if host.user_namespaces and closed is not None:
        _log.warning(
            "user namespaces disabled: others cannot traverse a directory; run chmod o+x on it",
            extra={"directory": str(closed)},
        )
    systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
    return Machine(
        host=replace(host, user_namespaces=host.user_namespaces and closed is None),
        cgroups=cgroups.open_driver(),
        handlers=RuntimeHandlers(runtimes=_runtimes(settings, marks), default=settings.default_handler),
        conmon=Conmon(settings.conmon, settings.exits),
        oom_kills=CgroupOomKills(OomCounter(cgroups.detect()), systemd=systemd),
    )


def open_network(settings: Settings, marks: Marks, namespaces: PinnedNamespaces) -> Network:
    """Open the pod network with its records of attachments. Blocking."""
    cni = settings.cni
    config = NetworkConfig(
        conf_dir=cni.conf_dir,
        attachments=settings.attachments,
        default_bridge=cni.default_bridge if cni.default_network else "",
        default_subnet=cni.default_subnet,
        ipam_dir=settings.root / "ipam",
        netns_of=partial(namespaces.path, kind=Kind.NETWORK),
        pod_addresses=cni.pod_addresses,
    )
    return Network(config, Plugins(directories=cni.bin_dirs, timeout=cni.timeout, marks=marks.environment))


def _runtimes(settings: Settings, marks: Marks) -> dict[str, OciRuntime]:
    found: dict[str, OciRuntime] = {}
    cgroup_migrations = cgroups.MigrationWarmUp(cgroups.detect())
    for name, handler in settings.handlers.items():
        root = settings.runtime_root(name)
        make_directory(root)
        try:
            systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
            found[name] = OciRuntime(
                program=handler.path,
                root=root,
                scratch=settings.scratch,
                systemd=systemd,
                cgroup_migrations=cgroup_migrations,
                marks=marks.environment,
            )
        except NotFound as error:
            if name == settings.default_handler:
                raise Permanent(f"{error} (apt-get install {handler.path})") from error
            _log.info("runtime handler disabled: program not found", extra={"handler": name, "error": str(error)})
    return found
