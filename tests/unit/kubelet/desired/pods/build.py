"""Pods of the API server, static pods and their mirror pods."""

from pykubelet.kubelet.types.updates import ANNOTATION_HASH, ANNOTATION_MIRROR, ANNOTATION_SOURCE
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta


def pod(name: str, uid: str, *config_maps: str, namespace: str = "default", **annotations: str) -> core.Pod:
    volumes = tuple(core.Volume(name=each, config_map=core.ConfigMapVolumeSource(name=each)) for each in config_maps)
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=annotations)
    return core.Pod(metadata=metadata, spec=core.PodSpec(volumes=volumes))


def static(name: str, uid: str, content: str = "h") -> core.Pod:
    return pod(name, uid, **{ANNOTATION_SOURCE: "file", ANNOTATION_HASH: content})


def mirror(name: str, uid: str, content: str = "h") -> core.Pod:
    return pod(name, uid, **{ANNOTATION_SOURCE: "api", ANNOTATION_MIRROR: content})
