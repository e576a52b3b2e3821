"""Asks the runtime for its cgroup driver before and while the agent runs: both must use the same one (KEP-4033)."""

import logging
from collections.abc import Callable

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions, CriUnsupported
from pykubelet.kubelet.actuate.cri.plan.cgroup_driver import other_driver
from pykubelet.kubelet.config import Settings
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_PATIENCE: Seconds = 5.0
_RETRY: Seconds = 5.0


async def with_runtime_driver(settings: Settings) -> tuple[Settings, bool]:
    """Return the settings with the cgroup driver that the runtime reports, and whether it is too old to report it.

    They are unchanged if the runtime does not respond, or is too old (containerd before 2.0).
    """
    try:
        reply = await _runtime_config(settings)
    except PykubeletError as error:
        _log.debug("cgroup driver of the runtime unknown", extra={"error": str(error)})
        return settings, isinstance(error, CriUnsupported)
    configured = settings.config.cgroup_driver
    driver = other_driver(reply, configured)
    if driver is None:
        return settings, False
    _log.warning("cgroup driver: using that of the runtime", extra={"driver": driver, "configured": configured})
    return replace(settings, config=replace(settings.config, cgroup_driver=driver)), False


async def check_runtime_driver(settings: Settings, clock: Clock, outdated: Callable[[], None]) -> None:
    """Wait until the runtime reports its cgroup driver: it may have been away when the agent started.

    ``outdated`` is called if it is too old for that. Permanent: it is another one than the agent uses. The pods'
    cgroups would be where the runtime does not look, so the agent has to start again.
    """
    used = settings.config.cgroup_driver
    while True:
        try:
            reply = await _runtime_config(settings)
        except CriUnsupported:
            outdated()
            return
        except PykubeletError:
            await clock.sleep(_RETRY)
            continue
        driver = other_driver(reply, used)
        if driver is not None:
            raise Permanent(
                f"the runtime uses the cgroup driver {driver}, and the agent has started with {used}, since the "
                f"runtime did not respond; start the agent again, or set cgroupDriver: {driver}"
            )
        return


async def _runtime_config(settings: Settings) -> pb.RuntimeConfigResponse:
    """Ask the runtime over a connection of its own. Raises the errors of the call."""
    client = CriClient.connect(settings.runtime_endpoint, CriOptions(request_timeout=_PATIENCE))
    try:
        return await client.runtime_config()
    finally:
        await client.close()
