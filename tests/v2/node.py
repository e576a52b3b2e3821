"""pykubelet, installed as units in the emulated machine, as the tests see it from outside."""

import json
import shlex
from collections.abc import Callable
from typing import Any

from tests.v2.guest import container, traces, usage_and_cgroup, wait_gone
from tools.v2.image import PROJECT_DIRECTORY
from tools.v2.machine import CommandResult, Machine
from tools.v2.project import BUSYBOX

_PYTHON = f"{PROJECT_DIRECTORY}/.venv/bin/python"
MANIFESTS = "/etc/pykubelet/manifests"
FILES = "--config /etc/pykubelet/config.yaml --criserver-config /etc/pykubelet/criserver.yaml"
"""Flags that name the configurations."""
UNITS = ("pykubelet-criserver.service", "pykubelet.service")


class Node:
    """The installed agent and runtime server."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

        self._configuration: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self._pods: set[str] = set()
        self.before: dict[str, list[str]] = {}
        """Traces on the machine before the first installation (``guest.traces``)."""

    def install(self, *, compared: bool) -> None:
        """Install and start the units with runc and the systemd cgroup driver, and import an image.

        ``compared``: a test will compare the state afterwards with the state before.
        """
        if compared:
            self.before = self.ask(traces)
        self.configure()
        self.pykubelet(f"image import -q {PROJECT_DIRECTORY}/busybox.tar")

    def configure(self, *, handler: str = "runc", **fields: Any) -> None:
        """Install and start the units with these fields of KubeletConfiguration, unless they run with them.

        ``handler``: the OCI runtime.
        """
        agent = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "cgroupDriver": "systemd",
            **fields,
        }
        server = {"cgroup_manager": "systemd", "default_handler": handler}
        if (agent, server) == self._configuration:
            return
        self.machine.write("/etc/pykubelet/criserver.yaml", json.dumps(server))
        self.machine.write("/etc/pykubelet/config.yaml", json.dumps(agent))
        self.pykubelet(f"install --now {FILES}")
        self._configuration = (agent, server)

    def pykubelet(self, command: str) -> CommandResult:
        """Run a command of the command line, which must succeed."""
        return self.shell(f"{_PYTHON} -P -m pykubelet.cli {command}")

    def shell(self, script: str) -> CommandResult:
        """Run a shell script, which must succeed."""
        done = self.machine.run(script)
        assert done.status == 0, f"{script!r} ended with {done.status}:\n{done.out}{done.error}\n{self.logs()}"
        return done

    def ask(self, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Call a function of ``guest.py`` in the machine."""
        given = shlex.quote(json.dumps({"arguments": arguments, "named": named}))
        done = self.shell(f"cd {PROJECT_DIRECTORY} && {_PYTHON} -P tests/v2/guest.py {function.__name__} {given}")
        return json.loads(done.out)

    def add(self, name: str, script: str, **spec: Any) -> None:
        """Write the manifest of a pod with one container, which runs a shell script.

        Its name must be its own: a pod that an earlier test has left would be taken for it, or replaced by it.
        """
        taken = [each for each in self._pods if f"{each}-".startswith(f"{name}-") or name.startswith(f"{each}-")]
        assert taken == [], f"pod {name}: earlier tests have left {taken}"
        self._pods.add(name)
        fields = spec.pop("container", {})
        main = {"name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", script], **fields}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [main], **spec},
        }
        self.machine.write(f"{MANIFESTS}/{name}.json", json.dumps(pod))

    def main_pids(self) -> dict[str, str]:
        """The process of each unit."""
        return {unit: self.shell(f"systemctl show -P MainPID {unit}").out.strip() for unit in UNITS}

    def remove(self, *names: str) -> None:
        """Remove the manifests of pods and wait until the agent has ended them."""
        self.shell(f"cd {MANIFESTS} && rm " + " ".join(f"{name}.json" for name in names))
        left = self.ask(wait_gone, *names)
        assert left == [], self.logs()
        self._pods.difference_update(names)

    def logs(self) -> str:
        """The end of the units' logs."""
        return self.machine.run("journalctl --no-pager -o cat -n 40 -u pykubelet -u pykubelet-criserver").out


def check_stats(node: Node, name: str) -> None:
    """Check what the agent measures of a pod's container against the control files before and after."""
    found = node.ask(usage_and_cgroup, name, node.ask(container, name)["id"])
    measured = found["measured"]
    values = {
        "cpu_ns": measured["cpu"]["usageCoreNanoSeconds"],
        "usage": measured["memory"]["usageBytes"],
        "working_set": measured["memory"]["workingSetBytes"],
        "rss": measured["memory"]["rssBytes"],
        "faults": measured["memory"]["pageFaults"],
    }
    for value_name, value in values.items():
        assert found["before"][value_name] <= value <= found["after"][value_name], (value_name, found)
