"""The configuration's fields about the node shutdown."""

from pathlib import Path
from typing import Final

from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period, periods
from pykubelet.kubelet.observe.node_shutdown.shutdown_interfaces import ShutdownConfig
from pykubelet.kubelet.observe.node_shutdown.shutdown_state import FILE_NAME

_DROP_IN: Final = Path("/etc/systemd/logind.conf.d/99-kubelet.conf")
"""Name and content are those of the Go kubelet, so that one replaces the other's."""


def shutdown_config(settings: Settings) -> ShutdownConfig:
    """Convert the configuration's fields."""
    return ShutdownConfig(
        periods=shutdown_periods(settings), state_file=settings.root_dir / FILE_NAME, drop_in=_DROP_IN
    )


def shutdown_periods(settings: Settings) -> tuple[Period, ...]:
    """Convert the fields that a reload changes."""
    config = settings.config
    by_priority = {
        each.priority: each.shutdown_grace_period_seconds for each in config.shutdown_grace_period_by_pod_priority
    }
    total = settings.seconds(config.shutdown_grace_period)
    return periods(by_priority, total, settings.seconds(config.shutdown_grace_period_critical_pods))
