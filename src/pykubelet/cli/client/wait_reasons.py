"""The reasons why a pod waits, by the agent's explanation of it: for pods whose status has no reason."""

from collections.abc import Mapping
from typing import Any

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.client.local_api import LocalApi

_FAILURES = {"backOff", "volumes", "retry"}


def failures_of(api: LocalApi, pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return reason and message of each failure that keeps the pod waiting; none if the agent does not tell.

    Steps that are in progress, and probes that have not been run yet, are no failures.
    """
    try:
        view = api.get(f"/pykubelet/v1/explain/{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    except PykubeletError:
        return []
    return [_failure(wait) for wait in view.get("waits", ()) if _has_failed(wait)]


def _has_failed(wait: Mapping[str, Any]) -> bool:
    return wait["kind"] in _FAILURES or (wait["kind"] == "probe" and bool(wait.get("times") or wait.get("message")))


def _failure(wait: Mapping[str, Any]) -> tuple[str, str]:
    container, reason, message = (str(wait.get(key, "")).strip() for key in ("subject", "reason", "message"))
    if wait["kind"] == "probe":
        reason, message = "Unhealthy", f"{reason}: {message}" if message else reason
    return reason, f"container {container}: {message or reason}" if container else message or reason
