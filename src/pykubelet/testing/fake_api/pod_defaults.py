"""The defaults that an API server gives to pods: a client such as the Go kubelet relies on them."""

import json
from typing import Any

from pykubelet.kubelet.desired.manifest.defaults import with_defaults
from pykubelet.kubelet.types.resources.qos import compute_qos
from pykubelet.models.codec import encode, from_builtins
from pykubelet.models.core_v1 import Pod

Json = dict[str, Any]


def complete_pod(value: Json) -> None:
    """Set the defaults of a new pod's spec where it has no value, and its first status."""
    spec = value.get("spec", {})
    defaulted = json.loads(encode(with_defaults(from_builtins({"spec": spec}, Pod))))
    value["spec"] = _completed(spec, defaulted["spec"])
    value["status"] = {"phase": "Pending", "qosClass": str(compute_qos(from_builtins({"spec": value["spec"]}, Pod)))}


def _completed(given: Any, defaulted: Any) -> Any:
    """Return the given value with the fields that only the defaulted one has."""
    match given, defaulted:
        case dict(), dict():
            added = {key: each for key, each in defaulted.items() if key not in given}
            return {key: _completed(each, defaulted.get(key)) for key, each in given.items()} | added
        case list(), list() if len(given) == len(defaulted):
            return [_completed(one, other) for one, other in zip(given, defaulted, strict=True)]
    return given
