"""Fixtures of the tests in which the runtime server is killed at chosen steps."""

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network

import pytest

from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.killstage import Stage
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX


@pytest.fixture(scope="module")
def stage(isolation: Isolation) -> Iterator[Stage]:
    """A private server that can be killed at a chosen step."""
    home = isolation.home / "k"
    made = PrivateCriServer(home, f"{isolation.bridge}k", isolation.further_subnet("k"), "pykubelet.testing.killpoints")
    cgroup = f"{isolation.cgroup_root}-k"
    try:
        made.write_configuration()
        made = replace(made, further={"handlers": _handlers(made)})
        made.load(ImageSpec(BUSYBOX, volumes=("/volume",), files={"volume/given": b"content"}))
        made.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        directory = isolation.home / "notes"
        directory.mkdir(exist_ok=True)
        with asyncio.Runner() as runner:
            yield Stage(made, cgroup, directory, port, BUSYBOX, runner)
    finally:
        made.destroy()
        remove_cgroups(cgroup)


def _handlers(server: PrivateCriServer) -> dict[str, object]:
    """The server's runtime handlers, and one more whose pods have two networks."""
    directory = server.home / "networks"
    directory.mkdir(exist_ok=True)
    for number, subnet in enumerate(list(ip_network(server.subnet).subnets(new_prefix=26))[-2:]):
        addresses = {
            "type": "host-local",
            "dataDir": str(server.home / "root" / "ipam"),
            "ranges": [[{"subnet": str(subnet)}]],
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        network = {"type": "ptp", "ipMasq": True, "ipam": addresses}
        document = {"cniVersion": "1.0.0", "name": f"{server.bridge}-{number}", "plugins": [network, ports]}
        (directory / f"{number}0.conflist").write_text(json.dumps(document))
    settings = json.loads(server.config.read_text())
    of_default = settings["handlers"][settings["default_handler"]]
    more = of_default | {"cni_conf_dir": str(directory), "cni_max_conf_num": 2}
    handlers: dict[str, object] = settings["handlers"]
    return handlers | {"networks": more}


@pytest.fixture
def luck(request: pytest.FixtureRequest, seed: int) -> random.Random:
    """A random generator of the test, which does not depend on earlier tests."""
    print(f"the same chance again: --seed={seed}")
    return random.Random(f"{seed} {request.node.name}")
