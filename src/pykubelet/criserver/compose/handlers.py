"""Builds the runtime handlers of a version of the configuration."""

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.documents import read_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.criserver.cni import HandlerNetworks
from pykubelet.criserver.config import CgroupManager, Handler, HandlerType, Settings
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.directories import make_directory
from pykubelet.criserver.machine import CgroupOomKills, ConfiguredHandlers
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.runtime import Observe
from pykubelet.criserver.programs import Marks
from pykubelet.criserver.runtimes import ContainerRuntime, MonitoredRuntime
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.criserver.spec import HandlerOptions
from pykubelet.criserver.spec.base_spec import LONGEST, check_base
from pykubelet.linux import cgroups
from pykubelet.linux.errors import raise_passing

if TYPE_CHECKING:
    from pykubelet.criserver.shim.shim_runtime import ShimRuntime

_log = logging.getLogger(__name__)


class HandlerTools(Struct, frozen=True, kw_only=True):
    """Dependencies of the runtimes of all handlers."""

    marks: Marks
    observe: Callable[[str], Observe] | None
    """Returns what gets the calls of a handler's program."""
    conmon: Conmon
    oom_kills: CgroupOomKills
    shim_events: ShimEvents


class HandlerFactory:
    """Builds handlers; the runtime of a handler whose program is unchanged stays the same object."""

    def __init__(self, tools: HandlerTools) -> None:
        self.tools = tools
        self._migrations = cgroups.MigrationWarmUp(cgroups.detect())
        self._made: dict[str, ContainerRuntime] = {}
        self._shims: list[ShimRuntime] = []

    def close(self) -> None:
        """Close the connections to shims; the shims go on."""
        for shim in self._shims:
            shim.connections.close()

    def build(self, settings: Settings) -> ConfiguredHandlers:
        """Build all handlers. Permanent: the default one's program is missing; Invalid: a base. Blocking.

        Transient: a base cannot be read for the moment.
        """
        runtimes = self._runtimes(settings)
        return ConfiguredHandlers(
            runtimes=runtimes,
            default=settings.default_handler,
            options={name: _options(name, settings, runtime) for name, runtime in runtimes.items()},
            networks={
                name: HandlerNetworks(str(handler.cni_conf_dir), handler.cni_max_conf_num)
                for name, handler in settings.handlers.items()
                if handler.cni_conf_dir
            },
        )

    def _runtimes(self, settings: Settings) -> dict[str, ContainerRuntime]:
        found: dict[str, ContainerRuntime] = {}
        for name, handler in settings.handlers.items():
            try:
                found[name] = self._runtime(name, handler, settings)
            except NotFound as error:
                if settings.requires(name):
                    raise Permanent(f"{error} (apt-get install {handler.path})") from error
                _log.info("runtime handler disabled: program not found", extra={"handler": name, "error": str(error)})
        return found

    def _runtime(self, name: str, handler: Handler, settings: Settings) -> ContainerRuntime:
        key = json.dumps((name, handler.type, handler.path, handler.options))
        made = self._made.get(key)
        if made is None:
            make_directory(settings.runtime_root(name))
            match handler.type:
                case HandlerType.OCI:
                    made = MonitoredRuntime(self._oci(name, settings, handler.path), self.tools.conmon)
                case HandlerType.SHIM:
                    made = self._shim(name, handler, settings)
            self._made[key] = made
        return made

    def _oci(self, name: str, settings: Settings, program: str) -> OciRuntime:
        return OciRuntime(
            program=program,
            root=settings.runtime_root(name),
            scratch=settings.scratch,
            systemd=settings.cgroup_manager is CgroupManager.SYSTEMD,
            cgroup_migrations=self._migrations,
            marks=self.tools.marks.environment,
            observe=self.tools.observe(name) if self.tools.observe is not None else None,
        )

    def _shim(self, name: str, handler: Handler, settings: Settings) -> ContainerRuntime:
        # Imported here: most servers have no shim, and what runs them takes 0.4 MiB.
        from pykubelet.criserver.compose.shim_handler import ShimNeeds, build_shim_runtime

        needs = ShimNeeds(
            conmon=self.tools.conmon,
            events=self.tools.shim_events,
            oom_kills=self.tools.oom_kills.of_container,
            oci=partial(self._oci, name, settings),
        )
        made = build_shim_runtime(name, handler, settings, needs)
        self._shims.append(made)
        return made


def _options(name: str, settings: Settings, runtime: ContainerRuntime) -> HandlerOptions:
    handler, base = settings.handlers[name], None
    if handler.base_runtime_spec is not None:
        origin = f"handlers.{name}.base_runtime_spec {handler.base_runtime_spec}"
        try:
            base = check_base(_json(read_regular(handler.base_runtime_spec, LONGEST), origin), origin)
        except OSError as error:
            raise_passing(error, origin)
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


def _json(data: bytes, origin: str) -> object:
    try:
        return read_json(data)
    except Invalid as error:
        raise Invalid(f"{origin}: {error}") from error
