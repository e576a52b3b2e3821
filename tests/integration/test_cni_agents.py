"""CNI plugins that leave the work to an agent in a pod, which sees network namespaces in a mounted directory only."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.runtime import PrivateRuntime
from tests.contract.cri.rig import Program, Runtime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_MTU = "4242"
_PLUGIN = """#!/bin/sh
# Has the agent prepare the namespace, and waits for its answer.
given=$(cat)
if [ "$CNI_COMMAND" = ADD ]; then
    echo "$CNI_NETNS" > {order}/$CNI_CONTAINERID.new
    mv {order}/$CNI_CONTAINERID.new {order}/$CNI_CONTAINERID.asked
    for i in $(seq 200); do
        [ -e {order}/$CNI_CONTAINERID.done ] && break
        sleep 0.1
    done
    [ -e {order}/$CNI_CONTAINERID.done ] || {{ echo '{{"code": 11, "msg": "the agent is not responding"}}'; exit 1; }}
    echo "$given" | {python} -c 'import json, sys; json.dump(json.load(sys.stdin)["prevResult"], sys.stdout)'
fi
"""
_AGENT = f"""
while :; do
    for asked in /order/*.asked; do
        [ -e "$asked" ] || continue
        space=/var/run/netns/$(basename "$(cat "$asked")")
        nsenter --net="$space" ip link set lo mtu {_MTU} && mv "$asked" "${{asked%.asked}}.done"
    done
    sleep 0.1
done
"""


@pytest.fixture
def order(tmp_path: Path) -> Path:
    """The directory in which the plugin and its agent meet."""
    made = tmp_path / "order"
    made.mkdir()
    return made


@pytest.fixture
def server(daemon: PrivateRuntime, order: Path, tmp_path: Path) -> Iterator[PrivateCriServer]:
    """The server with a network whose last plugin needs its agent."""
    assert isinstance(daemon, PrivateCriServer)
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "thin").write_text(_PLUGIN.format(order=shlex.quote(str(order)), python="python3"))
    (plugins / "thin").chmod(0o755)
    other = replace(daemon, cni={"bin_dirs": [str(plugins), "/usr/lib/cni"]}, chained=("thin",))
    daemon.stop()
    try:
        other.start()
        yield other
    finally:
        other.stop()
        (daemon.home / "cni" / "10-bridge.conflist").unlink()
        daemon.start()


async def _start_agent(runtime: Runtime, netns: Path, order: Path) -> ContainerID:
    pod = runtime.pod_config()
    node = pb.NamespaceOption(network=pb.NODE, pid=pb.CONTAINER)
    pod.linux.security_context.CopyFrom(pb.LinuxSandboxSecurityContext(namespace_options=node, privileged=True))
    sandbox = await runtime.sandbox(pod)
    config = runtime.container_config(Program("agent", ("sh", "-c", _AGENT), Script()))
    config.linux.security_context.CopyFrom(pb.LinuxContainerSecurityContext(namespace_options=node, privileged=True))
    config.mounts.add(
        host_path=str(netns),
        container_path="/var/run/netns",
        readonly=True,
        propagation=pb.PROPAGATION_HOST_TO_CONTAINER,
    )
    config.mounts.add(host_path=str(order), container_path="/order")
    container = await runtime.client.create_container(sandbox, config, pod)
    await runtime.client.start_container(container)
    return container


async def test_the_agent_of_a_plugin_opens_namespaces_of_later_pods(
    runtime: Runtime, server: PrivateCriServer, order: Path
) -> None:
    netns = server.settings().network_namespaces
    await _start_agent(runtime, netns, order)
    pod = runtime.pod_config(attempt=1)
    sandbox = await runtime.sandbox(pod)
    program = runtime.container_config(Program("main", ("sh", "-c", "exec sleep 100"), Script()))
    container = await runtime.client.create_container(sandbox, program, pod)
    await runtime.client.start_container(container)
    seen = await runtime.client.exec_sync(container, ["cat", "/sys/class/net/lo/mtu"], 20)
    assert seen.stdout.decode().strip() == _MTU
    assert [entry.name for entry in netns.iterdir()] == [f"cni-{sandbox}"]
    await runtime.client.remove_pod_sandbox(sandbox)
    assert list(netns.iterdir()) == []
