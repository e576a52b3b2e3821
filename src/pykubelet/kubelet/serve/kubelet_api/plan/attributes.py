"""Attributes to authorize for a request: method → verb, route → node subresources (KEP-2862). Pure.

Exec, attach, port-forward and run need ``create`` whatever their method: over WebSocket they come as GET, and would
otherwise be allowed to every user who may read the node.
"""

from typing import Final

from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import RequestAttributes

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COMMANDS: Final = ("/exec", "/attach", "/portForward", "/run")
_PROXY: Final = "proxy"

_SUBRESOURCES: Final = (
    ("/pods", ("pods", _PROXY)),
    ("/healthz", ("healthz", _PROXY)),
    ("/configz", ("configz", _PROXY)),
    ("/runningpods", ("pods", _PROXY)),
    ("/stats", ("stats",)),
    ("/metrics", ("metrics",)),
    ("/logs", ("log",)),
    ("/checkpoint", ("checkpoint",)),
    ("/statusz", ("statusz",)),
    ("/flagz", ("configz",)),
)
"""Route → subresources: the fine-grained name first, then the one that older RBAC rules grant."""


def request_attributes(method: str, pattern: str) -> RequestAttributes:
    """Return the attributes of a request from its method and the pattern of the matched route.

    The verb is empty for a method that has none.
    """
    if any(_below(pattern, root) for root in _COMMANDS):
        return RequestAttributes("create", (_PROXY,))
    subresources = next((names for root, names in _SUBRESOURCES if _below(pattern, root)), (_PROXY,))
    return RequestAttributes(_VERBS.get(method, ""), subresources)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
