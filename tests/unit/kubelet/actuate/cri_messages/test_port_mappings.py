"""Port mappings of sandboxes."""

import pytest

from pykubelet.kubelet.actuate.cri_messages.port_mappings import port_mappings
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_pod


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([], []),
        ([{"containerPort": 80}], [pb.PortMapping(container_port=80)]),
        (
            [{"containerPort": 80, "hostPort": 8080, "hostIP": "192.0.2.1", "protocol": "SCTP"}],
            [pb.PortMapping(container_port=80, host_port=8080, host_ip="192.0.2.1", protocol=pb.SCTP)],
        ),
        (
            [{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}, {"containerPort": 80}],
            [pb.PortMapping(container_port=80), pb.PortMapping(container_port=80)],
        ),
        ([{"containerPort": 80}, {"containerPort": 80}], [pb.PortMapping(container_port=80)]),
        (
            [
                {"containerPort": 80, "hostPort": 1, "hostIP": "0.0.0.0"},
                {"containerPort": 80, "hostPort": 1, "hostIP": "::"},
            ],
            [
                pb.PortMapping(container_port=80, host_port=1, host_ip="0.0.0.0"),
                pb.PortMapping(container_port=80, host_port=1, host_ip="::"),
            ],
        ),
        (
            [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
            [pb.PortMapping(container_port=53), pb.PortMapping(container_port=53, protocol=pb.UDP)],
        ),
    ],
)
def test_ports_of_a_container_become_port_mappings(ports: list[Fields], expected: list[pb.PortMapping]) -> None:
    assert list(port_mappings(make_pod({"containers": [{"name": "a", "ports": ports}]}))) == expected


def test_whose_ports_count() -> None:
    def container(name: str, port: int, **fields: object) -> Fields:
        return {"name": name, "ports": [{"name": "p", "containerPort": port}], **fields}

    pod = make_pod(
        {
            "containers": [container("a", 1), container("b", 2)],
            "initContainers": [container("i", 3), container("sidecar", 4, restartPolicy="Always")],
        }
    )
    assert [mapping.container_port for mapping in port_mappings(pod)] == [1, 2, 4]
