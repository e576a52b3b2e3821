"""An agent that is a node of an API server, and what the tests do with its pods."""

import http.client
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.kubelet.actuate.host.firewall_chains import FIREWALL, HINT
from pykubelet.linux.iptables import IPV4
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.kubeapi import Json, KubeApi
from pykubelet.testing.patience import PATIENCE

NODE = "testnode"
Condition = Callable[[Pod], object]


def chains_of_agent(program: str) -> dict[str, str]:
    """The chains of the firewall that the agent creates, and their tables."""
    return {HINT: "mangle"} | ({FIREWALL: "filter"} if program == IPV4 else {})


def has_chains(program: str) -> bool:
    """Whether a program's firewall has the chains that the agent creates, and what leads to them."""
    return all(_rules(program, table, chain) for chain, table in chains_of_agent(program).items())


def remove_chains(program: str) -> None:
    """Remove what the agent has created."""
    for chain, table in chains_of_agent(program).items():
        for rule in _rules(program, table):
            if rule.endswith(f" -j {chain}"):
                subprocess.run([program, "-w", "-t", table, "-D", *rule.split()[1:]], check=True)
        if _rules(program, table, chain):
            subprocess.run([program, "-w", "-t", table, "-F", chain], check=True)
            subprocess.run([program, "-w", "-t", table, "-X", chain], check=True)


def _rules(program: str, table: str, *chain: str) -> list[str]:
    done = subprocess.run([program, "-w", "-t", table, "-S", *chain], capture_output=True, check=False)
    return done.stdout.decode().splitlines()


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

        def reported() -> list[Json]:
            last[:] = self.api.get(path)["items"]
            return [each for each in last if each["reason"] == reason and text in each["message"]]

        def why() -> str:
            others = "\n".join(f"{each['type']} {each['reason']}: {each['message']}" for each in last)
            return f"no event {reason} {text!r}:\n{others}\n{self.agent.log_tail()}"

        wait_for(lambda: bool(reported()), 30.0, why)
        return reported()[-1]

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
