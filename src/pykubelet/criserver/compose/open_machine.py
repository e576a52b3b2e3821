"""Opens what belongs to the machine: its facts, the programs that do the work, and the pod network."""

import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from pykubelet.criserver.cni import NetworkConfig, NetworkManager
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.compose.handlers import HandlerFactory, HandlerTools
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.config.host_facts import host_facts
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.directories import find_untraversable
from pykubelet.criserver.machine import CgroupOomKills, Machine
from pykubelet.criserver.netns import NamespaceKind, PinnedNamespaces
from pykubelet.criserver.oci.runtime import Observe
from pykubelet.criserver.programs import Marks
from pykubelet.criserver.runtimes import RuntimeHandlers
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups.oom import OomCounter

_log = logging.getLogger(__name__)


def open_tools(settings: Settings, marks: Marks, observe: Callable[[str], Observe] | None = None) -> HandlerTools:
    """Find what the runtimes of all handlers use. ``observe`` returns what gets the calls of a handler's program."""
    systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
    layout = cgroups.detect()
    return HandlerTools(
        marks=marks,
        observe=observe,
        conmon=Conmon(settings.conmon, settings.exits, trust_oom_notes=layout.mode is cgroups.Mode.V2),
        oom_kills=CgroupOomKills(OomCounter(layout), systemd=systemd),
        shim_events=ShimEvents(settings.shim_events),
    )


def open_machine(settings: Settings, factory: HandlerFactory) -> Machine:
    """Inspect the machine. Permanent: a required program is not installed; Invalid: a handler's base. Blocking."""
    host = host_facts()
    closed = find_untraversable(settings.root_filesystems, settings.sandboxes)
    if host.user_namespaces and closed is not None:
        _log.warning(
            "user namespaces disabled: others cannot traverse a directory; run chmod o+x on it",
            extra={"directory": str(closed)},
        )
    if settings.enable_selinux and host.selinux_problem:
        _log.warning(
            "containers get no SELinux labels: install a policy with container types (container-selinux), "
            "or set enable_selinux = false",
            extra={"problem": host.selinux_problem},
        )
    handlers = factory.build(settings)
    return Machine(
        host=replace(
            host,
            user_namespaces=host.user_namespaces and closed is None,
            selinux=host.selinux and settings.enable_selinux,
        ),
        cgroups=cgroups.open_driver(),
        handlers=RuntimeHandlers(runtimes=handlers.runtimes, default=handlers.default),
        handler_options=dict(handlers.options),
        networks=dict(handlers.networks),
        conmon=factory.tools.conmon,
        oom_kills=factory.tools.oom_kills,
    )


def open_namespaces(settings: Settings) -> PinnedNamespaces:
    """Open the pinned namespaces of earlier sandboxes. Blocking."""
    return PinnedNamespaces.open(directory=settings.namespaces, shared=settings.network_namespaces)


def open_network(settings: Settings, marks: Marks, namespaces: PinnedNamespaces) -> NetworkManager:
    """Open the pod network with its records of attachments. Blocking."""
    cni = settings.cni
    config = NetworkConfig(
        conf_dir=cni.conf_dir,
        attachments=settings.attachments,
        max_networks=cni.max_conf_num,
        default_bridge=cni.default_bridge if cni.default_network else "",
        default_subnet=cni.default_subnet,
        ipam_dir=settings.root / "ipam",
        netns_of=partial(namespaces.path, kind=NamespaceKind.NETWORK),
        collect_garbage=cni.collect_garbage,
        pod_addresses=cni.pod_addresses,
    )
    return NetworkManager(config, Plugins(directories=cni.bin_dirs, timeout=cni.timeout, marks=marks.environment))
