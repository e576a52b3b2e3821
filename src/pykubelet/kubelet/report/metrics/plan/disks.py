"""Disk series of /metrics, taken from the Summary API: container logs, and volumes of claims. Pure."""

from typing import Final

from pykubelet.base.exposition import Exposition, label_text
from pykubelet.kubelet.types.resources.stats import Summary

_LOGS: Final = "kubelet_container_log_filesystem_used_bytes"
_VOLUMES: Final = (
    ("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume", "capacity_bytes"),
    ("kubelet_volume_stats_available_bytes", "Number of available bytes in the volume", "available_bytes"),
    ("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume", "used_bytes"),
    ("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume", "inodes"),
    ("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume", "inodes_free"),
    ("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume", "inodes_used"),
)


def disks_text(found: Summary) -> bytes:
    """Return the text; empty without series. A claim that several pods mount appears once."""
    out = Exposition()
    out.family(_LOGS, "gauge", "Bytes used by the container's logs on the filesystem.")
    for name, text, _ in _VOLUMES:
        out.family(name, "gauge", text)
    claims: set[str] = set()
    for pod in found.pods:
        ref = pod.pod_ref
        for container in pod.containers:
            if container.logs is not None:
                pairs = (("container", container.name), ("namespace", ref.namespace), ("pod", ref.name))
                out.add(_LOGS, label_text((*pairs, ("uid", ref.uid))), container.logs.used_bytes)
        for volume in pod.volume:
            claim = volume.pvc_ref
            if claim is None:
                continue
            labels = label_text((("namespace", claim.namespace), ("persistentvolumeclaim", claim.name)))
            if labels not in claims:
                claims.add(labels)
                for name, _, attribute in _VOLUMES:
                    out.add(name, labels, getattr(volume, attribute))
    return out.render()
