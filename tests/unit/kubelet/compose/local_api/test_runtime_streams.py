"""Streams of the runtime: the sandbox to which ports are forwarded, and what exec and attach ask for."""

from typing import Any
from unittest.mock import create_autospec

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.compose.local_api.runtime_streams import RuntimeStreams
from pykubelet.kubelet.serve.streams import StreamOptions
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.pb import runtime_v1_pb2 as pb

OPTIONS = StreamOptions(container="c", command=("sh", "-c", "ls"), stdin=True, stdout=True, tty=True)


@pytest.fixture
def cri() -> Any:
    return create_autospec(CriClient, instance=True)


async def test_ports_are_forwarded_to_the_newest_running_sandbox(cri: Any) -> None:
    rows = [pb.PodSandbox(id=name, metadata=pb.PodSandboxMetadata(attempt=n)) for n, name in enumerate("abc")]
    cri.list_pod_sandboxes.return_value = [rows[1], rows[2], rows[0]]
    cri.port_forward.return_value = "http://x"
    assert await RuntimeStreams(cri).port_forward_url(PodUID("u"), (80, 81)) == "http://x"
    cri.port_forward.assert_called_once_with("c", [80, 81])
    (asked,) = cri.list_pod_sandboxes.call_args.args
    assert asked.label_selector == {"io.kubernetes.pod.uid": "u"}
    assert asked.state.state == pb.SANDBOX_READY


async def test_pod_without_a_running_sandbox_is_not_found(cri: Any) -> None:
    cri.list_pod_sandboxes.return_value = []
    with pytest.raises(NotFound, match="the pod with uid u has no running sandbox"):
        await RuntimeStreams(cri).port_forward_url(PodUID("u"), (80,))


async def test_exec_and_attach_ask_for_the_streams_of_the_client(cri: Any) -> None:
    streams = RuntimeStreams(cri)
    await streams.exec_url(ContainerID("c1"), OPTIONS)
    await streams.attach_url(ContainerID("c1"), OPTIONS)
    shared: dict[str, Any] = {"container_id": "c1", "tty": True, "stdin": True, "stdout": True, "stderr": False}
    cri.exec.assert_called_once_with(pb.ExecRequest(cmd=["sh", "-c", "ls"], **shared))
    cri.attach.assert_called_once_with(pb.AttachRequest(**shared))
