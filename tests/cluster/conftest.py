"""Fixtures: a real API server and an agent that is its node, on a real container runtime."""

import http.client
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.node.iptables_hint import CHAIN
from pykubelet.kubelet.actuate.node.tunables import TUNABLES
from pykubelet.models.core_v1 import Pod
from pykubelet.testing import shifted
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import ADMIN, EnvTest, find_assets
from pykubelet.testing.fake_api.thread import FakeApiThread, fake_api_thread
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import Json, KubeApi
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime

NODE = "testnode"
Condition = Callable[[Pod], object]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests with the real API server if it is not installed, with one line."""
    try:
        find_assets()
    except NotFound as error:
        for item in items:
            if "apiserver" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=str(error)))


@pytest.fixture(scope="session", autouse=True)
def _machine() -> Iterator[None]:
    """Restore what the agent of a cluster sets on the machine: kernel tunables, and a chain of the firewall."""
    paths = [Path("/proc/sys") / name.replace(".", "/") for name in TUNABLES]
    before = {path: path.read_text() for path in paths if path.exists()}
    chains = {program: has_chain(program) for program in ("iptables", "ip6tables") if shutil.which(program)}
    yield
    for path, value in before.items():
        if path.read_text() != value:
            path.write_text(value)
    for program, was_there in chains.items():
        if not was_there and has_chain(program):
            subprocess.run([program, "-w", "-t", "mangle", "-X", CHAIN], check=True)


def has_chain(program: str) -> bool:
    """Whether a program's firewall has the chain that the agent creates."""
    done = subprocess.run([program, "-w", "-t", "mangle", "-S", CHAIN], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="session")
def apiserver(isolation: Isolation) -> Iterator[EnvTest]:
    """The session's API server."""
    server = EnvTest(isolation.home / "api", nodes=(NODE, "othernode"))
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture(scope="session")
def api(apiserver: EnvTest) -> KubeApi:
    """A client with the rights of an administrator."""
    return KubeApi(apiserver.url, str(apiserver.home / "ca.crt"), apiserver.tokens[ADMIN])


@pytest.fixture(scope="session")
def node_address(isolation: Isolation) -> str:
    """The address at which the API server reaches the node."""
    return isolation.add_node_address()


@dataclass
class Cluster:
    """An agent as the node ``testnode``."""

    api: KubeApi
    agent: AgentProcess
    address: str
    """Address of the node."""

    def run(self, manifest: Json) -> Json:
        """Create the pod and bind it to the node."""
        return self.api.run_pod(manifest, NODE)

    def ready(self, name: str, timeout: float = 30.0) -> Pod:
        return self.api.wait_ready(name, timeout, self.agent.log_tail)

    def until(self, name: str, condition: Condition, timeout: float = 30.0) -> Pod:
        return self.api.wait_pod(name, condition, timeout, self.agent.log_tail)

    def wait_asked(self, name: str, container: str = "") -> None:
        """Wait until a container with the command ``lingering`` has been asked to stop."""
        asked = ("exec", name, *(("-c", container) if container else ()), "--", "test", "-e", "/tmp/asked")
        wait_for(lambda: self.agent.cli(*asked).returncode == 0, 30.0, self.agent.log_tail)

    def delete(self, name: str, grace: int | None = None, timeout: float = 30.0) -> None:
        """Delete the pod and wait until it is gone."""
        self.api.delete_pod(name, grace)
        self.api.wait_gone(name, timeout, self.agent.log_tail)

    def wait_event(self, name: str, reason: str, text: str = "") -> Json:
        """Wait until the API server has an event of the pod, or the node, with that reason and text; return it."""
        path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"
        last: list[Json] = []

        def told() -> list[Json]:
            last[:] = self.api.get(path)["items"]
            return [each for each in last if each["reason"] == reason and text in each["message"]]

        def why() -> str:
            others = "\n".join(f"{each['type']} {each['reason']}: {each['message']}" for each in last)
            return f"no event {reason} {text!r}:\n{others}\n{self.agent.log_tail()}"

        wait_for(lambda: bool(told()), 30.0, why)
        return told()[-1]

    def ask(self, path: str, token: str = "") -> tuple[int, str]:
        """Send a request to the node's kubelet API server, as metrics-server and Prometheus do."""
        context = ssl.create_default_context(cafile=str(self.agent.root / "pki" / "kubelet.crt"))
        return https_get((self.address, self.agent.node_port), path, context, token)


def https_get(place: tuple[str, int], path: str, context: ssl.SSLContext, token: str) -> tuple[int, str]:
    """Send a request with a token, unless that is empty; return the status and the text."""
    connection = http.client.HTTPSConnection(*place, context=context, timeout=20 * PATIENCE)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def node_config() -> Json:
    """KubeletConfiguration fields of the module's node; modules override it."""
    return {}


@pytest.fixture(scope="module")
def node_flags() -> list[str]:
    """Further flags; modules override it."""
    return []


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest,
    isolation: Isolation,
    daemon: PrivateRuntime,
    apiserver: EnvTest,
    api: KubeApi,
    node_address: str,
    node_config: Json,
    node_flags: list[str],
) -> Iterator[Cluster]:
    """The module's node, Ready; its pods are removed at the end."""
    home = isolation.home / f"n-{request.module.__name__.rpartition('.')[2].removeprefix('test_')[:10]}"
    flags = ["--kubeconfig", str(apiserver.node_kubeconfig(NODE)), "--node-ip", node_address, *node_flags]
    config = {"address": node_address, **node_config}
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, NODE, config, flags)
    agent.start()
    try:
        wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)
        yield Cluster(api, agent, node_address)
        _remove_everything(api, agent)
    finally:
        agent.destroy()
        api.delete(f"/api/v1/nodes/{NODE}")


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeApiThread]:
    """The module's fake API server, for features that the real one is too old for."""
    with fake_api_thread() as made:
        yield made


@pytest.fixture(scope="module")
def agent_module() -> str:
    """Python module that runs the agent of ``newer``; modules override it."""
    return shifted.module()


@pytest.fixture(scope="module")
def newer(
    request: pytest.FixtureRequest,
    isolation: Isolation,
    daemon: PrivateRuntime,
    fake: FakeApiThread,
    node_address: str,
    agent_module: str,
) -> Iterator[Cluster]:
    """The module's agent that is a node of the fake API server."""
    home = isolation.home / request.module.__name__.rpartition(".")[2].removeprefix("test_")
    home.mkdir()
    flags = ["--kubeconfig", str(fake.kubeconfig(home / "kubelet.conf")), "--node-ip", node_address]
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, NODE, flags=flags, module=agent_module)
    agent.start()
    api = KubeApi(fake.url, "", "")
    try:
        wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)
        yield Cluster(api, agent, node_address)
        assert agent.stop() == 0, agent.log_tail()
    finally:
        agent.destroy()


def _remove_everything(api: KubeApi, agent: AgentProcess) -> None:
    if agent.process is None:
        agent.start()
    for path in agent.manifests.iterdir():
        path.unlink()
    for item in api.get("/api/v1/pods")["items"]:
        api.delete_pod(item["metadata"]["name"], 0 if not item["spec"].get("nodeName") else 1)
    wait_for(lambda: not api.get("/api/v1/pods")["items"], 60.0, agent.log_tail)
    wait_for(lambda: not agent.pods(), 60.0, agent.log_tail)
    assert agent.stop() == 0, agent.log_tail()
