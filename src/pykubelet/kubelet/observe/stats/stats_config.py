"""The configuration's fields about usage figures."""

from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.observe.stats.stats_interfaces import StatsConfig
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle, qos_name, root_name, to_path
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.linux import cgroups

_CLASSES = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)


def stats_config(settings: Settings) -> StatsConfig:
    """Convert the configuration's fields. Raises Invalid for an invalid ``cgroupRoot``."""
    root, style = root_name(settings.config.cgroup_root or "/"), NameStyle(settings.config.cgroup_driver)
    return StatsConfig(
        node_name=settings.node_name,
        layout=cgroups.detect(),
        root_dir=settings.root_dir,
        pod_logs_dir=settings.pod_log_dir,
        groups=tuple(to_path(qos_name(root, qos), style) for qos in _CLASSES),
        runtime_socket=settings.runtime_endpoint,
        volume_period=settings.seconds(settings.config.volume_stats_agg_period),
    )
