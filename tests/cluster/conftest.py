"""Fixtures: a real API server and an agent that is its node, on a real container runtime."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.host.tunables import TUNABLES
from pykubelet.testing import shifted
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import ADMIN, EnvTest, find_assets
from pykubelet.testing.fake_api.thread import FakeApiThread, fake_api_thread
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import Json, KubeApi
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.certificate_requests import REQUESTS
from tests.cluster.cluster_node import NODE, Cluster, has_chains, remove_chains


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
    """Restore what the agent of a cluster sets on the machine: kernel tunables, and chains of the firewall."""
    paths = [Path("/proc/sys") / name.replace(".", "/") for name in TUNABLES]
    before = {path: path.read_text() for path in paths if path.exists()}
    chains = {program: has_chains(program) for program in ("iptables", "ip6tables") if shutil.which(program)}
    yield
    for path, value in before.items():
        if path.read_text() != value:
            path.write_text(value)
    for program, was_there in chains.items():
        if not was_there:
            remove_chains(program)


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


@pytest.fixture
def agent_with(
    isolation: Isolation, daemon: PrivateRuntime, apiserver: EnvTest, api: KubeApi
) -> Iterator[Callable[..., AgentProcess]]:
    """Create agents of the node with further flags and fields of the configuration."""
    made: list[AgentProcess] = []

    def make(name: str, *flags: str, **config: object) -> AgentProcess:
        home = isolation.home / name
        home.mkdir()
        all_flags = ["--kubeconfig", str(apiserver.node_kubeconfig(NODE)), "--cert-dir", str(home / "pki"), *flags]
        fields: Json = {"nodeStatusUpdateFrequency": "1s", **config}
        made.append(AgentProcess(home, daemon.endpoint, isolation.cgroup_root, NODE, fields, all_flags))
        return made[-1]

    try:
        yield make
    finally:
        for agent in made:
            agent.destroy()
        api.delete(f"/api/v1/nodes/{NODE}")
        api.delete(REQUESTS)


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
