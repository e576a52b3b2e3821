"""Who makes cgroups: agent and runtime must agree, and the runtime has the say where it tells (KEP-4033)."""

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
    """The settings with the cgroup driver that the runtime dictates.

    They stay as they are while it does not answer, or is too old to tell (containerd before 2.0).
    """
    client = CriClient.connect(settings.runtime_endpoint, CriOptions(request_timeout=_PATIENCE))
    try:
        reply = await client.runtime_config()
    except PykubeletError as error:
        _log.debug("the runtime does not tell its cgroup driver", extra={"error": str(error)})
        return settings
    finally:
        await client.close()
    driver = _NAMES.get(reply.linux.cgroup_driver) if reply.HasField("linux") else None
    configured = settings.config.cgroup_driver
    if driver is None or driver == configured:
        return settings
    _log.warning("the runtime's cgroup driver is used", extra={"driver": driver, "configured": configured})
    return replace(settings, config=replace_fields(settings.config, cgroup_driver=driver))
