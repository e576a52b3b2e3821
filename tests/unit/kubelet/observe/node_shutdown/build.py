"""Pods that a shutdown of the node ends."""

from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod


def make_pod(name: str, priority: int | None = None, grace: int | None = None) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": grace, "priority": priority}
    given = {key: value for key, value in spec.items() if value is not None}
    return from_builtins({"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": given}, Pod)
