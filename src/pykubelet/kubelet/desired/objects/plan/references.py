"""The ConfigMaps and Secrets that a pod refers to. Pure."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models import core_v1 as core

CONFIG_MAP = "ConfigMap"
SECRET = "Secret"


class Reference(Struct, frozen=True):
    """A field of a pod that names a ConfigMap or Secret."""

    kind: str
    name: str
    field: str
    """Path of the field with the name."""
    keys: tuple[tuple[str, str], ...] = ()
    """The keys that the pod needs of it, each with the path of its field."""
    optional: bool = False
    """The pod starts without the object."""


def references(pod: core.Pod) -> frozenset[ObjectKey]:
    """Return all ConfigMaps and Secrets of the pod's environment, volumes and image pulls, optional ones included."""
    namespace = pod.metadata.namespace or "default"
    return frozenset(ObjectKey(each.kind, namespace, each.name) for each in named_objects(pod.spec) if each.name)


def named_objects(spec: core.PodSpec) -> Iterator[Reference]:
    """Yield each field of a pod that names a ConfigMap or Secret."""
    for index, reference in enumerate(spec.image_pull_secrets):
        # Without it the image is pulled anonymously.
        yield Reference(SECRET, reference.name, f"spec.imagePullSecrets[{index}].name", optional=True)
    lists: tuple[tuple[str, tuple[AnyContainer, ...]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for field, containers in lists:
        for index, container in enumerate(containers):
            yield from _of_environment(container.env, container.env_from, f"spec.{field}[{index}]")
    for index, volume in enumerate(spec.volumes):
        yield from _of_volume(volume, f"spec.volumes[{index}]")


def _of_environment(
    variables: Iterable[core.EnvVar], sources: Iterable[core.EnvFromSource], path: str
) -> Iterator[Reference]:
    for index, variable in enumerate(variables):
        if variable.value_from is None:
            continue
        where = f"{path}.env[{index}].valueFrom"
        if (of_map := variable.value_from.config_map_key_ref) is not None:
            keys = ((of_map.key, f"{where}.configMapKeyRef.key"),)
            yield Reference(CONFIG_MAP, of_map.name, f"{where}.configMapKeyRef.name", keys, bool(of_map.optional))
        if (of_secret := variable.value_from.secret_key_ref) is not None:
            keys = ((of_secret.key, f"{where}.secretKeyRef.key"),)
            yield Reference(SECRET, of_secret.name, f"{where}.secretKeyRef.name", keys, bool(of_secret.optional))
    for index, source in enumerate(sources):
        where = f"{path}.envFrom[{index}]"
        if (all_of_map := source.config_map_ref) is not None:
            yield Reference(
                CONFIG_MAP, all_of_map.name, f"{where}.configMapRef.name", optional=bool(all_of_map.optional)
            )
        if (all_of_secret := source.secret_ref) is not None:
            yield Reference(
                SECRET, all_of_secret.name, f"{where}.secretRef.name", optional=bool(all_of_secret.optional)
            )


def _of_volume(volume: core.Volume, path: str) -> Iterator[Reference]:
    if (of_map := volume.config_map) is not None:
        keys = _keys(of_map.items, f"{path}.configMap")
        yield Reference(CONFIG_MAP, of_map.name, f"{path}.configMap.name", keys, bool(of_map.optional))
    if (of_secret := volume.secret) is not None:
        keys = _keys(of_secret.items, f"{path}.secret")
        yield Reference(SECRET, of_secret.secret_name, f"{path}.secret.secretName", keys, bool(of_secret.optional))
    for index, projection in enumerate(volume.projected.sources if volume.projected else ()):
        where = f"{path}.projected.sources[{index}]"
        if (map_part := projection.config_map) is not None:
            keys = _keys(map_part.items, f"{where}.configMap")
            yield Reference(CONFIG_MAP, map_part.name, f"{where}.configMap.name", keys, bool(map_part.optional))
        if (secret_part := projection.secret) is not None:
            keys = _keys(secret_part.items, f"{where}.secret")
            yield Reference(SECRET, secret_part.name, f"{where}.secret.name", keys, bool(secret_part.optional))
    if volume.azure_file is not None:
        yield Reference(SECRET, volume.azure_file.secret_name, f"{path}.azureFile.secretName")
    for field, reference in (
        ("csi.nodePublishSecretRef", volume.csi.node_publish_secret_ref if volume.csi else None),
        ("cephfs.secretRef", volume.cephfs.secret_ref if volume.cephfs else None),
        ("cinder.secretRef", volume.cinder.secret_ref if volume.cinder else None),
        ("flexVolume.secretRef", volume.flex_volume.secret_ref if volume.flex_volume else None),
        ("iscsi.secretRef", volume.iscsi.secret_ref if volume.iscsi else None),
        ("rbd.secretRef", volume.rbd.secret_ref if volume.rbd else None),
        ("scaleIO.secretRef", volume.scale_io.secret_ref if volume.scale_io else None),
        ("storageos.secretRef", volume.storageos.secret_ref if volume.storageos else None),
    ):
        if reference is not None:
            yield Reference(SECRET, reference.name, f"{path}.{field}.name")


def _keys(items: Iterable[core.KeyToPath], path: str) -> tuple[tuple[str, str], ...]:
    return tuple((item.key, f"{path}.items[{index}].key") for index, item in enumerate(items))
