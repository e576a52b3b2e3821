"""A fake API server for an agent on a real runtime, with the agent's pods and node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.fake_api.thread import FakeApiThread, fake_api_thread
from tests.manifests import Json

_NODE = "testnode"


class ApiServer:
    """The API server of an agent that is the node ``testnode``: the reports of the agent, and the pods that it runs."""

    def __init__(self, server: FakeApiThread) -> None:
        self._server = server

    def put_pod(self, manifest: Json) -> None:
        self._server.put_pod(manifest, _NODE)

    def pod(self, name: str) -> Json:
        return self._get(Place("/api/v1", "pods", "default", name))

    def remove_pod(self, name: str) -> None:
        self._server.do(lambda: self._server.api.store.delete(Place("/api/v1", "pods", "default", name), "", 0))

    def touch_pod(self, name: str) -> None:
        """Change the pod's object, but nothing that it runs."""
        place = Place("/api/v1", "pods", "default", name)
        found = self._get(place)
        meta = {**found["metadata"], "annotations": {"touched": "yes"}}
        self._server.do(lambda: self._server.api.store.replace(place, {**found, "metadata": meta}))

    def fail(self, *faults: Fault) -> None:
        """Replace all faults by these."""
        self._server.fail(*faults)

    def failing(self) -> bool:
        """Whether a request is still to come that fails."""
        return any(fault.times > 0 for fault in self._server.api.faults)

    def break_watches(self) -> None:
        self._server.break_watches()

    def conditions(self) -> dict[str, str]:
        node = self._get(Place("/api/v1", "nodes", "", _NODE))
        return {each["type"]: each["status"] for each in node["status"].get("conditions", ())}

    def annotations(self, name: str, reason: str) -> dict[str, str]:
        """The annotations of a pod's event; empty before it is sent."""
        place = Place("/api/v1", "events", "default")
        for event in self._server.do(lambda: self._server.api.store.list(place, lambda each: True)):
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason):
                return dict(event["metadata"].get("annotations", {}))
        return {}

    def kubeconfig(self, path: Path) -> Path:
        return self._server.kubeconfig(path)

    def _get(self, place: Place) -> Json:
        return self._server.do(lambda: self._server.api.store.get(place))


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Serve until the end of the block."""
    with fake_api_thread() as server:
        yield ApiServer(server)
