"""Pods that may be evicted."""

from collections.abc import Mapping
from typing import Any

from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

MI = 1 << 20


def make_pod(uid: str, spec: Mapping[str, Any] | None = None, **resources: Mapping[str, str]) -> Pod:
    container = {"name": "c", "image": "i", "resources": resources}
    return from_builtins(
        {"metadata": {"name": uid, "namespace": "d", "uid": uid}, "spec": {"containers": [container], **(spec or {})}},
        Pod,
    )
