"""The cgroup driver: agent and runtime must use the same one, and the runtime's takes precedence (KEP-4033)."""

import logging
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.config import Settings
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_PATIENCE: Seconds = 5.0
_NAMES = {pb.CGROUPFS: "cgroupfs", pb.SYSTEMD: "systemd"}


async def with_runtime_driver(settings: Settings) -> Settings:
    """Return the settings with the cgroup driver that the runtime reports.

    They are unchanged if the runtime does not respond, or is too old to report it (containerd before 2.0).
    """
    client = CriClient.connect(settings.runtime_endpoint, CriOptions(request_timeout=_PATIENCE))
    try:
        reply = await client.runtime_config()
    except PykubeletError as error:
        _log.debug("cgroup driver of the runtime unknown", extra={"error": str(error)})
        return settings
    finally:
        await client.close()
    driver = _NAMES.get(reply.linux.cgroup_driver) if reply.HasField("linux") else None
    configured = settings.config.cgroup_driver
    if driver is None or driver == configured:
        return settings
    _log.warning("cgroup driver: using that of the runtime", extra={"driver": driver, "configured": configured})
    return replace(settings, config=replace_fields(settings.config, cgroup_driver=driver))
