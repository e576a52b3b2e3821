"""The ConfigMaps and Secrets that a pod refers to. Pure."""

from collections.abc import Iterator

from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models import core_v1 as core

CONFIG_MAP = "ConfigMap"
SECRET = "Secret"


def references(pod: core.Pod) -> frozenset[ObjectKey]:
    """Return all ConfigMaps and Secrets of the pod's environment, volumes and image pulls, optional ones included."""
    namespace = pod.metadata.namespace or "default"
    named = _of_spec(pod.spec)
    return frozenset(ObjectKey(kind, namespace, name) for kind, name in named if name)


def _of_spec(spec: core.PodSpec) -> Iterator[tuple[str, str]]:
    for reference in spec.image_pull_secrets:
        yield SECRET, reference.name
    containers: tuple[AnyContainer, ...] = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    for container in containers:
        for variable in container.env:
            if variable.value_from is not None:
                if variable.value_from.config_map_key_ref is not None:
                    yield CONFIG_MAP, variable.value_from.config_map_key_ref.name
                if variable.value_from.secret_key_ref is not None:
                    yield SECRET, variable.value_from.secret_key_ref.name
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield CONFIG_MAP, source.config_map_ref.name
            if source.secret_ref is not None:
                yield SECRET, source.secret_ref.name
    for volume in spec.volumes:
        yield from _of_volume(volume)


def _of_volume(volume: core.Volume) -> Iterator[tuple[str, str]]:
    if volume.config_map is not None:
        yield CONFIG_MAP, volume.config_map.name
    if volume.secret is not None:
        yield SECRET, volume.secret.secret_name
    for projection in volume.projected.sources if volume.projected else ():
        if projection.config_map is not None:
            yield CONFIG_MAP, projection.config_map.name
        if projection.secret is not None:
            yield SECRET, projection.secret.name
    if volume.azure_file is not None:
        yield SECRET, volume.azure_file.secret_name
    for reference in (
        volume.csi.node_publish_secret_ref if volume.csi else None,
        volume.cephfs.secret_ref if volume.cephfs else None,
        volume.cinder.secret_ref if volume.cinder else None,
        volume.flex_volume.secret_ref if volume.flex_volume else None,
        volume.iscsi.secret_ref if volume.iscsi else None,
        volume.rbd.secret_ref if volume.rbd else None,
        volume.scale_io.secret_ref if volume.scale_io else None,
        volume.storageos.secret_ref if volume.storageos else None,
    ):
        if reference is not None:
            yield SECRET, reference.name
