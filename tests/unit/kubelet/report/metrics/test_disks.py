from pykubelet.kubelet.report.metrics.plan.disks import disks_text
from pykubelet.kubelet.types.resources import stats
from pykubelet.models.scalars import time_from_unix

NOW = time_from_unix(1_700_000_000)


def pod(name: str, *claims: str) -> stats.PodStats:
    logs = stats.FsStats(time=NOW, used_bytes=4096)
    volumes = [
        stats.VolumeStats(
            time=NOW,
            name=claim,
            used_bytes=7,
            pvc_ref=stats.PvcReference(name=claim, namespace="ns") if claim else None,
        )
        for claim in claims
    ]
    return stats.PodStats(
        pod_ref=stats.PodReference(name=name, namespace="ns", uid=f"uid-{name}"),
        containers=(stats.ContainerStats(name="app", logs=logs), stats.ContainerStats(name="new")),
        volume=tuple(volumes),
    )


def test_disk_metrics_name_logs_and_mounted_claims() -> None:
    node = stats.NodeStats(node_name="n")
    text = disks_text(stats.Summary(node=node, pods=(pod("a", "data", ""), pod("b", "data")))).decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        'kubelet_container_log_filesystem_used_bytes{container="app",namespace="ns",pod="a",uid="uid-a"} 4096',
        'kubelet_container_log_filesystem_used_bytes{container="app",namespace="ns",pod="b",uid="uid-b"} 4096',
        'kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="data"} 7',
    ]


def test_disks_text_without_logs_and_claims_is_empty() -> None:
    assert disks_text(stats.Summary(node=stats.NodeStats(node_name="n"), pods=())) == b""
