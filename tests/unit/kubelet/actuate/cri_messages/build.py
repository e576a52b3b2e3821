"""Pods for these tests, written as manifests are."""

from pykubelet.kubelet.actuate.actuate_types import ImageFacts
from pykubelet.kubelet.actuate.cri_messages.config_types import ContainerContext
from pykubelet.models import codec
from pykubelet.models.core_v1 import Container, Pod

Fields = dict[str, object]


def make_pod(spec: Fields | None = None, /, **meta: object) -> Pod:
    """A pod named ``web`` of namespace ``shop`` with this spec and further metadata."""
    metadata = {"name": "web", "namespace": "shop", "uid": "u-1", **meta}
    return codec.from_builtins({"metadata": metadata, "spec": spec or {}}, Pod)


def make_container(**fields: object) -> Container:
    """A container named ``app``."""
    return codec.from_builtins({"name": "app", "image": "example.com/app:1", **fields}, Container)


def make_context(env: dict[str, str] | None = None, image: ImageFacts | None = None) -> ContainerContext:
    """A context with an image that runs as user 1000."""
    return ContainerContext(image_ref="sha256:abc", image=image or ImageFacts("sha256:abc", uid=1000), env=env or {})
