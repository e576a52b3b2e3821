"""Pods from a URL: downloaded only after changes, kept while the server is unavailable."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from pykubelet.testing.free_ports import free_port
from tests.manifests import Json, config_map, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


class Manifests:
    """An HTTP server with ETags that can be stopped and restarted on the same port."""

    def __init__(self) -> None:
        self.body = b""
        self.answers: list[int] = []
        self.headers: list[str] = []
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.port = free_port()
        """Not one that the kernel may give to a connection while the server is stopped."""

    def start(self) -> None:
        manifests = self

        class Handler(BaseHTTPRequestHandler):
            """Serves one resource."""

            def do_GET(self) -> None:
                tag = f'"{hash(manifests.body)}"'
                status = 304 if self.headers.get("If-None-Match") == tag else 200
                manifests.answers.append(status)
                manifests.headers.append(self.headers.get("X-Node", ""))
                self.send_response(status)
                self.send_header("ETag", tag)
                self.end_headers()
                if status == 200:
                    self.wfile.write(manifests.body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Discard the access log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="manifests", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def serve(self, *documents: Json) -> None:
        self.body = "\n---\n".join(json.dumps(document) for document in documents).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[Manifests]:
    server = Manifests()
    server.serve(config_map("empty", {}))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def agent_config(server: Manifests) -> dict[str, object]:
    return {
        "staticPodURL": f"http://127.0.0.1:{server.port}/pods.yaml",
        "staticPodURLHeader": {"X-Node": ["mine"]},
        "httpCheckFrequency": "500ms",
    }


def test_pods_from_a_url_follow_its_content(agent: AgentProcess, server: Manifests) -> None:
    env = [{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "url-map", "key": "key"}}}]
    server.serve(config_map("url-map", {"key": "fetched"}), pod("url", container(env=env)))
    before = agent.wait_running("url")[0]
    assert before.metadata.annotations["kubernetes.io/config.source"] == "http"
    assert agent.exec("url", "echo $KEY").strip() == "fetched"
    assert set(server.headers) == {"mine"}

    count = len(server.answers)
    wait_for(lambda: len(server.answers) >= count + 2, 5, lambda: str(server.answers))
    assert server.answers[count:][:2] == [304, 304], "an unchanged manifest was sent again"

    server.stop()
    agent.write("file.json", pod("from-file"))
    agent.wait_running("from-file")
    wait_for(lambda: bool(_problems(agent, server)), 5, agent.log_tail)
    kept = agent.pod("url")
    assert container_status(kept).container_id == container_status(before).container_id
    server.start()
    wait_for(lambda: not _problems(agent, server), 10, agent.log_tail)

    for broken in (b"kind: [", b"", b"<html>error</html>"):
        server.body = broken
        count = len(server.answers)
        wait_for(lambda count=count: len(server.answers) >= count + 2, 5, lambda: str(server.answers))  # type: ignore[misc]
        assert container_status(agent.pod("url")).container_id == container_status(before).container_id

    server.serve(pod("other"))
    agent.wait_gone("url")
    agent.wait_running("other")
    server.serve(config_map("empty", {}))
    agent.wait_gone("other")
    assert "from-file" in agent.pods()


def _problems(agent: AgentProcess, server: Manifests) -> list[str]:
    items = agent.api.get("/pykubelet/v1/problems")["items"]
    return [item["message"] for item in items if str(server.port) in item["subject"] + item["message"]]
