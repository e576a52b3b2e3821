"""Builds the runtime handlers of a version of the configuration."""

import logging
from collections.abc import Callable

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.documents import read_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.directories import make_directory
from pykubelet.criserver.machine import ConfiguredHandlers
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.runtime import Observe
from pykubelet.criserver.programs import Marks
from pykubelet.criserver.spec import HandlerOptions
from pykubelet.criserver.spec.base_spec import check_base
from pykubelet.linux import cgroups

_log = logging.getLogger(__name__)
_LONGEST_SPEC = 1 * MIB


class HandlerFactory:
    """Builds handlers; the runtime of a handler whose program is unchanged stays the same object."""

    def __init__(self, marks: Marks, observe: Callable[[str], Observe] | None = None) -> None:
        """``observe`` returns what gets the calls of a handler's program."""
        self._marks = marks
        self._observe = observe
        self._migrations = cgroups.MigrationWarmUp(cgroups.detect())
        self._made: dict[tuple[str, str], OciRuntime] = {}

    def build(self, settings: Settings) -> ConfiguredHandlers:
        """Build all handlers. Permanent: the default one's program is missing; Invalid: a base. Blocking."""
        runtimes = self._runtimes(settings)
        return ConfiguredHandlers(
            runtimes=runtimes,
            default=settings.default_handler,
            options={name: _options(name, settings, runtime) for name, runtime in runtimes.items()},
            network_directories={
                name: handler.cni_conf_dir for name, handler in settings.handlers.items() if handler.cni_conf_dir
            },
        )

    def _runtimes(self, settings: Settings) -> dict[str, OciRuntime]:
        found: dict[str, OciRuntime] = {}
        for name, handler in settings.handlers.items():
            try:
                found[name] = self._runtime(name, handler.path, settings)
            except NotFound as error:
                if name == settings.default_handler:
                    raise Permanent(f"{error} (apt-get install {handler.path})") from error
                _log.info("runtime handler disabled: program not found", extra={"handler": name, "error": str(error)})
        return found

    def _runtime(self, name: str, program: str, settings: Settings) -> OciRuntime:
        made = self._made.get((name, program))
        if made is None:
            root = settings.runtime_root(name)
            make_directory(root)
            made = self._made[name, program] = OciRuntime(
                program=program,
                root=root,
                scratch=settings.scratch,
                systemd=settings.cgroup_manager is CgroupManager.SYSTEMD,
                cgroup_migrations=self._migrations,
                marks=self._marks.environment,
                observe=self._observe(name) if self._observe is not None else None,
            )
        return made


def _options(name: str, settings: Settings, runtime: OciRuntime) -> HandlerOptions:
    handler, base = settings.handlers[name], None
    if handler.base_runtime_spec is not None:
        origin = f"handlers.{name}.base_runtime_spec {handler.base_runtime_spec}"
        try:
            base = check_base(_json(read_regular(handler.base_runtime_spec, _LONGEST_SPEC), origin), origin)
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


def _json(data: bytes, origin: str) -> object:
    try:
        return read_json(data)
    except Invalid as error:
        raise Invalid(f"{origin}: {error}") from error
