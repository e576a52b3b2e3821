"""The discovery API of the fake API server: enough for kubectl to find the core resources."""

from collections.abc import Mapping
from typing import Any

_CLUSTER_WIDE = frozenset({"nodes"})
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery(path: str, kinds: Mapping[str, str]) -> dict[str, Any] | None:
    """The response for a path of the discovery API; None for any other path. ``kinds``: plural → kind."""
    match path.rstrip("/"):
        case "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
        case "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        case "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        case "/api/v1":
            found = [_resource(plural, kind) for plural, kind in kinds.items()]
            found.append({**_resource("pods/ephemeralcontainers", "Pod"), "verbs": ["get", "patch", "update"]})
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": found}
    return None


def _resource(plural: str, kind: str) -> dict[str, Any]:
    namespaced = plural not in _CLUSTER_WIDE
    return {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": _VERBS}
