import logging
import os
import socket
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import IO, Any
from unittest.mock import Mock, create_autospec

import msgspec
import pytest
from msgspec.structs import replace

from pykubelet.apiclient import ApiClient
from pykubelet.apiclient.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from pykubelet.base.clock import SystemClock
from pykubelet.base.daemon.log_stream import stream_for
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.compose import kubelet_api
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.plan.field_effects import SECRET_VALUES
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.models.authentication_v1 import TokenReview
from pykubelet.models.authorization_v1 import SubjectAccessReview
from pykubelet.pb import runtime_v1_pb2 as pb


def settings(*, cluster: bool = False, **fields: object) -> Settings:
    config = replace(KubeletConfiguration(), **fields)
    joined = ClusterSettings(Path("/etc/kubeconfig")) if cluster else None
    return Settings("node-1", config, "unix:///run/x.sock", cluster=joined)


def test_shown_configuration_is_effective_and_without_secrets() -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(KubeletConfiguration)}
    secrets: dict[str, Any] = {fields[name].name: {"Authorization": ("secret",)} for name in SECRET_VALUES}
    assert {type(fields[name].default_factory()) for name in SECRET_VALUES} == {dict}  # only their values are masked
    shown = kubelet_api.configuration(settings(port=10350, **secrets))
    assert shown["kind"] == "KubeletConfiguration"
    assert shown["port"] == 10350
    assert shown["enableServer"] is True
    assert shown["containerRuntimeEndpoint"] == "unix:///run/x.sock"
    assert shown["authentication"] == {
        "x509": {"clientCAFile": ""},
        "webhook": {"enabled": True, "cacheTTL": "2m"},
        "anonymous": {"enabled": False},
    }
    assert "secret" not in str(shown)
    shown = kubelet_api.configuration(settings(static_pod_url="https://me:pa55word@host/pods"))
    assert shown["staticPodURL"] == "https://host/pods"


async def test_output_of_a_command_is_both_streams_and_running_pods_are_those_of_the_runtime() -> None:
    cri: Any = create_autospec(CriClient, instance=True)
    cri.exec_sync.return_value = pb.ExecSyncResponse(exit_code=2, stdout=b"out", stderr=b"err")
    access = kubelet_api.RuntimeAccess(cri, Mock())
    assert await access.run(ContainerID("c"), ["ls"]) == (2, b"outerr")
    labels = {"io.kubernetes.pod.uid": "u", "io.kubernetes.pod.name": "web"}
    cri.list_containers.return_value = [pb.Container(labels=labels)]
    assert [pod.metadata.name for pod in await access.running_pods()] == ["web"]
    (asked,) = cri.list_containers.call_args.args
    assert asked.state.state == pb.CONTAINER_RUNNING


async def test_reviews_are_created_at_the_api_server() -> None:
    client: Any = create_autospec(ApiClient, instance=True)
    reviews = kubelet_api.Reviews(client)
    token, subject = TokenReview(), SubjectAccessReview()
    answers: list[object] = [
        await reviews.create_token_review(token),
        await reviews.create_subject_access_review(subject),
    ]
    assert answers == [client.create.return_value] * 2
    assert [each.args for each in client.create.call_args_list] == [
        (TOKEN_REVIEWS.all(), token),
        (SUBJECT_ACCESS_REVIEWS.all(), subject),
    ]


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    reader, writer = os.pipe()
    return os.fdopen(reader, "rb"), os.fdopen(writer, "wb")


@pytest.mark.parametrize("kind", ["file", "pipe", "socket"])
def test_closed_log_stream_is_a_fault(kind: str) -> None:
    """The log of a service goes to a socket of the journal: a check that fails there ends it by the watchdog."""
    assert kubelet_api.log_fault() is None
    with ExitStack() as stack:
        ends = socket.socketpair() if kind == "socket" else _pipe()
        for end in ends:
            stack.enter_context(end)
        stream = StringIO() if kind == "file" else stream_for(ends[1].fileno(), SystemClock())
        assert stream is not None
        handler = logging.StreamHandler(stream)
        logging.getLogger().addHandler(handler)
        stack.callback(logging.getLogger().removeHandler, handler)
        assert kubelet_api.log_fault() is None
        stream.close()
        assert kubelet_api.log_fault() == "the log's stream is closed"
