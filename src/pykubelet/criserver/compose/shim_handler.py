"""Builds the runtime of a handler of the type ``shim``; imported with the first such handler."""

from collections.abc import Callable

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import CgroupManager, Handler, Settings
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.shim.conmon_log_writer import ShimLogs
from pykubelet.criserver.shim.shim_connections import ShimConnections
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.criserver.shim.shim_program import ShimProgram
from pykubelet.criserver.shim.shim_runtime import ShimParts, ShimRuntime


class ShimNeeds(Struct, frozen=True, kw_only=True):
    """Dependencies of the runtimes of all shims on the server."""

    conmon: Conmon
    events: ShimEvents
    oom_kills: Callable[[str], int]
    """Counts the kernel's OOM kills in a cgroup."""
    oci: Callable[[str], OciRuntime]
    """Returns the OCI runtime of a program."""


def build_shim_runtime(name: str, handler: Handler, settings: Settings, needs: ShimNeeds) -> ShimRuntime:
    """Build the runtime of a handler. Errors: NotFound: its program is missing; Invalid: an option. Blocking."""
    directory = settings.runtime_root(name)
    systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
    try:
        program = ShimProgram(handler.path, handler.options, state=directory / "state", systemd=systemd)
    except Invalid as error:
        raise Invalid(f"handlers.{name}.options: {error}") from error
    features = _no_features
    if program.of_runc:
        features = needs.oci(str(handler.options.get("BinaryName", "runc"))).features
    return ShimRuntime(
        ShimParts(
            program=program,
            connections=ShimConnections(directory),
            logs=ShimLogs(needs.conmon),
            events=needs.events,
            oom_kills=needs.oom_kills,
            features=features,
        )
    )


async def _no_features() -> Features:
    """The features of a shim that calls no known OCI runtime: there is no call in its API that tells them."""
    return Features(recursive_read_only=False, user_namespaces=False)
