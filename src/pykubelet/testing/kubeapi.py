"""A simple blocking client of the Kubernetes API for tests: JSON in, JSON out, independent of ``apiclient``."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import is_ready, wait_for

Json = dict[str, Any]
_TIMEOUT = 20.0


class ApiError(Exception):
    """The API server returned an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class KubeApi:
    """A client of an API server with the credentials of one user."""

    def __init__(self, url: str, ca_file: str, token: str) -> None:
        self._url = url
        self._token = token
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Json:
        """Send one request; ApiError unless it succeeds."""
        request = urllib.request.Request(f"{self._url}{path}", method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Accept", "application/json")
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, data, timeout=_TIMEOUT, context=self._context) as answer:
                found: Json = json.loads(answer.read() or b"{}")
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, error.read().decode(errors="replace")[:500]) from error

    def text(self, path: str) -> str:
        """Get a response that is not JSON, such as a node's metrics."""
        request = urllib.request.Request(f"{self._url}{path}", headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._context) as answer:
            found: bytes = answer.read()
        return found.decode()

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def find(self, path: str) -> Json | None:
        """The object; None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as fault:
            if fault.code == 404:
                return None
            raise

    def create(self, path: str, body: Mapping[str, object]) -> Json:
        return self.call("POST", path, body)

    def merge(self, path: str, patch: Mapping[str, object]) -> Json:
        return self.call("PATCH", path, patch, "application/merge-patch+json")

    def strategic(self, path: str, patch: Mapping[str, object]) -> Json:
        return self.call("PATCH", path, patch, "application/strategic-merge-patch+json")

    def delete(self, path: str, **options: object) -> None:
        """Delete an object; no error if it does not exist."""
        try:
            self.call("DELETE", path, options or None)
        except ApiError as fault:
            if fault.code != 404:
                raise

    # -- pods

    def run_pod(self, manifest: Json, node: str, namespace: str = "default") -> Json:
        """Create a pod and bind it to the node, as the scheduler does."""
        name = manifest["metadata"]["name"]
        made = self.create(f"/api/v1/namespaces/{namespace}/pods", manifest)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.create(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
        return made

    def find_pod(self, name: str, namespace: str = "default") -> Pod | None:
        """The pod; None if it does not exist."""
        found = self.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return from_builtins(found, Pod) if found is not None else None

    def wait_pod(
        self, name: str, condition: Callable[[Pod], object], timeout: float = 30.0, why: Callable[[], str] = str
    ) -> Pod:
        """Wait until the pod exists and the condition holds for it."""
        last: list[Pod] = []

        def holds() -> bool:
            pod = self.find_pod(name)
            last[:] = [pod] if pod else []
            return pod is not None and bool(condition(pod))

        wait_for(holds, timeout, lambda: f"pod {name}: {last[0].status if last else 'not there'}\n{why()}")
        return last[0]

    def wait_ready(self, name: str, timeout: float = 30.0, why: Callable[[], str] = str) -> Pod:
        """Wait until the pod is Running and Ready."""
        return self.wait_pod(name, is_ready, timeout, why)

    def wait_gone(self, name: str, timeout: float = 30.0, why: Callable[[], str] = str) -> None:
        """Wait until the pod is gone."""
        wait_for(lambda: self.find_pod(name) is None, timeout, lambda: f"pod {name} is still there\n{why()}")

    def delete_pod(self, name: str, grace: int | None = None, namespace: str = "default") -> None:
        """Request the pod's deletion; the node completes it."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", **options)

    def node(self, name: str) -> Json | None:
        return self.find(f"/api/v1/nodes/{name}")

    def node_condition(self, name: str, kind: str = "Ready") -> Json:
        """A condition of the node; empty if it does not exist."""
        node = self.node(name) or {}
        conditions = node.get("status", {}).get("conditions", ())
        return next((dict(c) for c in conditions if c["type"] == kind), {})
