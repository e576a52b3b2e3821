import logging
import os
import socket
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import IO

import pytest
from msgspec.structs import replace

from pykubelet.base.clock import SystemClock
from pykubelet.base.daemon.log_stream import stream_for
from pykubelet.kubelet.compose import kubelet_api
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings


def settings(*, cluster: bool = False, **fields: object) -> Settings:
    config = replace(KubeletConfiguration(), **fields)
    joined = ClusterSettings(Path("/etc/kubeconfig")) if cluster else None
    return Settings("node-1", config, "unix:///run/x.sock", cluster=joined)


def test_shown_configuration_is_effective_and_without_secrets() -> None:
    shown = kubelet_api.configuration(settings(static_pod_url_header={"Authorization": ("secret",)}, port=10350))
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
