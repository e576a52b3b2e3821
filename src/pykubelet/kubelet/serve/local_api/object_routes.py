"""Routes of the local API for the node, and for the ConfigMaps and Secrets of manifests: get and list.

Values of Secrets are served as the Kubernetes API does: a client that may open the socket may read the manifests, too.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from aiohttp import web
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.common.plan.query import boolean
from pykubelet.kubelet.serve.common.responses import json_response
from pykubelet.kubelet.serve.local_api.local_interfaces import LocalManifests, NodeInfo
from pykubelet.kubelet.serve.local_api.selectors import OBJECT_FIELDS, field_test, label_test
from pykubelet.models.core_v1 import ConfigMap, Node, Secret
from pykubelet.models.meta_v1 import ListMeta

T = TypeVar("T", ConfigMap, Secret, Node)
_ALL: Final = "/api/v1"
_OF_NAMESPACE: Final = "/api/v1/namespaces/{namespace}"


class ObjectRoutes:
    """Handlers of objects that have no watch."""

    def __init__(self, node: NodeInfo, manifests: LocalManifests) -> None:
        self._node = node
        self._manifests = manifests

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes."""
        return [
            web.get(f"{_ALL}/nodes", self._list_nodes),
            web.get(f"{_ALL}/nodes/{{name}}", self._get_node),
            *(
                web.get(f"{base}/{kind}", listing)
                for base in (_ALL, _OF_NAMESPACE)
                for kind, listing in (("configmaps", self._list_config_maps), ("secrets", self._list_secrets))
            ),
            web.get(f"{_OF_NAMESPACE}/configmaps/{{name}}", self._get_config_map),
            web.get(f"{_OF_NAMESPACE}/secrets/{{name}}", self._get_secret),
        ]

    async def _list_nodes(self, request: web.Request) -> web.Response:
        return _listed(request, [await self._node.node()], "Node")

    async def _get_node(self, request: web.Request) -> web.Response:
        return _found(request, [await self._node.node()], "Node", "nodes")

    async def _list_config_maps(self, request: web.Request) -> web.Response:
        return _listed(request, self._of(ConfigMap), "ConfigMap")

    async def _get_config_map(self, request: web.Request) -> web.Response:
        return _found(request, self._of(ConfigMap), "ConfigMap", "configmaps")

    async def _list_secrets(self, request: web.Request) -> web.Response:
        return _listed(request, self._of(Secret), "Secret")

    async def _get_secret(self, request: web.Request) -> web.Response:
        return _found(request, self._of(Secret), "Secret", "secrets")

    def _of(self, kind: type[T]) -> list[T]:
        return [each for each in self._manifests.objects() if isinstance(each, kind)]


def _listed(request: web.Request, values: Sequence[T], kind: str) -> web.Response:
    if boolean(request.query, "watch"):
        raise Invalid(f"objects of kind {kind} cannot be watched here; list them again")
    namespace = request.match_info.get("namespace")
    labels = label_test(request.query.get("labelSelector", ""))
    fields = field_test(request.query.get("fieldSelector", ""), OBJECT_FIELDS)
    items = [
        replace(each, api_version="v1", kind=kind)
        for each in values
        if namespace in (None, _namespace(each)) and labels(each.metadata.labels) and fields(each.metadata)
    ]
    items.sort(key=lambda each: (each.metadata.namespace, each.metadata.name))
    return json_response({"apiVersion": "v1", "kind": f"{kind}List", "metadata": ListMeta(), "items": items})


def _found(request: web.Request, values: Sequence[T], kind: str, plural: str) -> web.Response:
    name, namespace = request.match_info["name"], request.match_info.get("namespace")
    for each in values:
        if each.metadata.name == name and namespace in (None, _namespace(each)):
            return json_response(replace(each, api_version="v1", kind=kind))
    raise NotFound(f'{plural} "{name}" not found')


def _namespace(value: ConfigMap | Secret | Node) -> str:
    return value.metadata.namespace or "default"
