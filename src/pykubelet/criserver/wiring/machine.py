"""Opens what belongs to the machine: its facts, the programs that do the work, and the pod network."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.documents import read_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.cni import NetworkConfig, NetworkManager
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.config.machine import host_facts
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.directories import find_untraversable, make_directory
from pykubelet.criserver.machine import CgroupOomKills, Machine
from pykubelet.criserver.netns import Kind, PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime, RuntimeHandlers
from pykubelet.criserver.oci.runtime import Observe
from pykubelet.criserver.programs import Marks
from pykubelet.criserver.spec import HandlerOptions
from pykubelet.criserver.spec.base_spec import check_base
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups.oom import OomCounter

_log = logging.getLogger(__name__)
_LONGEST_SPEC = 1 * MIB


def open_machine(settings: Settings, marks: Marks, observe: Callable[[str], Observe] | None = None) -> Machine:
    """Inspect the machine. ``observe`` returns what gets the calls of a handler's program.

    Permanent: a required program is not installed; Invalid: a handler's base. Blocking."""
    host = host_facts()
    closed = find_untraversable(settings.root_filesystems, settings.sandboxes)
    if host.user_namespaces and closed is not None:
        _log.warning(
            "user namespaces disabled: others cannot traverse a directory; run chmod o+x on it",
            extra={"directory": str(closed)},
        )
    systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
    runtimes = _runtimes(settings, marks, observe)
    return Machine(
        host=replace(host, user_namespaces=host.user_namespaces and closed is None),
        cgroups=cgroups.open_driver(),
        handlers=RuntimeHandlers(runtimes=runtimes, default=settings.default_handler),
        handler_options={name: _options(name, settings, runtime) for name, runtime in runtimes.items()},
        network_directories={
            name: handler.cni_conf_dir for name, handler in settings.handlers.items() if handler.cni_conf_dir
        },
        conmon=Conmon(settings.conmon, settings.exits),
        oom_kills=CgroupOomKills(OomCounter(cgroups.detect()), systemd=systemd),
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
        default_bridge=cni.default_bridge if cni.default_network else "",
        default_subnet=cni.default_subnet,
        ipam_dir=settings.root / "ipam",
        netns_of=partial(namespaces.path, kind=Kind.NETWORK),
        collect_garbage=cni.collect_garbage,
        pod_addresses=cni.pod_addresses,
    )
    return NetworkManager(config, Plugins(directories=cni.bin_dirs, timeout=cni.timeout, marks=marks.environment))


def _options(name: str, settings: Settings, runtime: OciRuntime) -> HandlerOptions:
    handler, base = settings.handlers[name], None
    if handler.base_runtime_spec is not None:
        origin = f"handlers.{name}.base_runtime_spec {handler.base_runtime_spec}"
        try:
            base = check_base(read_json(read_regular(handler.base_runtime_spec, _LONGEST_SPEC)), origin)
        except OSError as error:
            raise Invalid(f"{origin}: cannot be read: {error.strerror}") from error
    joined = handler.sandbox_annotations
    return HandlerOptions(
        pod_annotations=handler.pod_annotations,
        container_annotations=handler.container_annotations,
        privileged_without_host_devices=handler.privileged_without_host_devices,
        privileged_without_host_devices_all_devices_allowed=handler.privileged_without_host_devices_all_devices_allowed,
        cgroup_writable=handler.cgroup_writable,
        device_ownership_from_security_context=settings.device_ownership_from_security_context,
        sandbox_annotations=runtime.known if joined is None else joined,
        base=base,
    )


def _runtimes(settings: Settings, marks: Marks, observe: Callable[[str], Observe] | None) -> dict[str, OciRuntime]:
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
                observe=observe(name) if observe is not None else None,
            )
        except NotFound as error:
            if name == settings.default_handler:
                raise Permanent(f"{error} (apt-get install {handler.path})") from error
            _log.info("runtime handler disabled: program not found", extra={"handler": name, "error": str(error)})
    return found
