"""Records as CRI messages, and errors as codes."""

import json
import time

import pytest
from grpc import StatusCode
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient, Unsupported
from pykubelet.base.proc import ProgramTimeout
from pykubelet.criserver.container import Container
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.server import view
from pykubelet.criserver.server.call_table import chunks
from pykubelet.criserver.server.errors import status_of
from pykubelet.criserver.types import (
    ContainerID,
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    SandboxID,
    SandboxPhase,
    SandboxRecord,
)
from pykubelet.pb import runtime_v1_pb2 as pb

ID = f"sha256:{'abcd1234' * 8}"
SANDBOX_CONFIG = pb.PodSandboxConfig(
    metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1"), labels={"a": "1", "b": "2"}
)
CONFIG = pb.ContainerConfig(
    metadata=pb.ContainerMetadata(name="app", attempt=3),
    image=pb.ImageSpec(image="sha256:1", user_specified_image="app:1"),
    labels={"a": "1"},
    mounts=[pb.Mount(container_path="/d", host_path="/h")],
)
SANDBOX = Sandbox(
    SandboxRecord(
        SandboxID("s123"),
        "n",
        "runc",
        SANDBOX_CONFIG.SerializeToString(),
        5,
        SandboxPhase.READY,
        ("10.0.0.1", "fd00::1"),
    ),
    monotonic=time.monotonic,
)
CONTAINER = Container(
    ContainerRecord(
        id=ContainerID("c123"),
        name="app_3",
        sandbox_id=SandboxID("s123"),
        config=CONFIG.SerializeToString(),
        created_at=1,
        image_id="sha256:1",
        image_ref="app@sha256:9",
        log_path="/log/0.log",
        cgroup="/p/c",
        stop_signal="SIGINT",
        user=ContainerUser(1000, 1001, (1001, 7)),
        phase=ContainerPhase.EXITED,
        started_at=2,
        finished_at=3,
        exit_code=4,
        reason="Error",
        message="m",
    ),
    monotonic=time.monotonic,
)


def test_sandbox_status_has_the_fields_of_the_record() -> None:
    status = view.sandbox_status(SANDBOX)
    assert (status.id, status.state, status.created_at) == ("s123", pb.SANDBOX_READY, 5)
    assert status.metadata == SANDBOX_CONFIG.metadata
    assert (status.network.ip, [ip.ip for ip in status.network.additional_ips]) == ("10.0.0.1", ["fd00::1"])
    assert view.sandbox_summary(SANDBOX).runtime_handler == "runc"


def test_container_status_has_the_fields_of_the_record() -> None:
    status = view.container_status(CONTAINER)
    assert (status.state, status.exit_code, status.reason, status.message) == (pb.CONTAINER_EXITED, 4, "Error", "m")
    assert (status.created_at, status.started_at, status.finished_at) == (1, 2, 3)
    assert (status.image.image, status.image_ref) == ("docker.io/library/app:1", "app@sha256:9")
    assert (status.image_id, status.image.user_specified_image) == ("sha256:1", "app:1")
    user = status.user.linux
    assert (user.uid, user.gid, list(user.supplemental_groups)) == (1000, 1001, [1001, 7])
    assert status.stop_signal == pb.SIGINT
    assert status.mounts == CONFIG.mounts
    assert view.container_summary(CONTAINER).pod_sandbox_id == "s123"


@pytest.mark.parametrize(
    ("image", "user_specified", "name"),
    [
        (ID, "app", "docker.io/library/app:latest"),
        ("team/app:2", "", "docker.io/team/app:2"),
        (ID, "reg.example:5000/app:1", "reg.example:5000/app:1"),
        (ID, f"app:1@{ID}", f"docker.io/library/app:1@{ID}"),
        (ID, f"app@{ID}", f"docker.io/library/app@{ID}"),
        (ID, ID, ID),
        (ID, "abcd1234", "abcd1234"),
        (ID, "cafe", "docker.io/library/cafe:latest"),
        ("/archives/checkpoint.tar", "", "/archives/checkpoint.tar"),
    ],
)
def test_image_of_a_container_is_reported_by_its_full_name(image: str, user_specified: str, name: str) -> None:
    config = pb.ContainerConfig(image=pb.ImageSpec(image=image, user_specified_image=user_specified))
    record = replace(CONTAINER.record, config=config.SerializeToString(), image_id=ID)
    container = Container(record, monotonic=time.monotonic)
    assert view.container_status(container).image.image == name
    assert view.container_summary(container).image.image == name


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), StatusCode.NOT_FOUND),
        (Conflict("x"), StatusCode.ALREADY_EXISTS),
        (Invalid("x"), StatusCode.INVALID_ARGUMENT),
        (Unsupported("x"), StatusCode.UNIMPLEMENTED),
        (Permanent("x"), StatusCode.FAILED_PRECONDITION),
        (ProgramTimeout("x"), StatusCode.DEADLINE_EXCEEDED),
        (Transient("x"), StatusCode.UNKNOWN),
        (ExceptionGroup("g", [ExceptionGroup("g", [NotFound("x")])]), StatusCode.NOT_FOUND),
    ],
)
def test_errors_map_to_codes(error: Exception, code: StatusCode) -> None:
    assert status_of(error, "Call") == (code, "x")


def test_unexpected_error_is_internal_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    code, details = status_of(KeyError("k"), "Call")
    assert code is StatusCode.INTERNAL
    assert "Call" in details
    assert "unexpected error" in caplog.text


def test_lists_are_split_into_chunks() -> None:
    small, large = pb.Image(id="i"), pb.Image(id="i" * 400_000)
    assert [len(piece) for piece in chunks([small] * 1001)] == [500, 500, 1]
    pieces = chunks([small, large, large, large, small, pb.Image(id="i" * (2 << 20))])
    assert [len(piece) for piece in pieces] == [3, 2, 1]
    assert chunks([]) == [[]]


def test_request_is_converted_for_json() -> None:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"),
        command=["sh", "-c"],
        envs=[pb.KeyValue(key="A", value=b"b\xff")],
        labels={"a": "1"},
        mounts=[pb.Mount(container_path="/d", host_path="/h", propagation=pb.PROPAGATION_BIDIRECTIONAL)],
        tty=True,
    )
    config.linux.resources.cpu_quota = 50000
    config.linux.security_context.run_as_user.value = 0
    assert json.loads(json.dumps(view.as_asked(config))) == {
        "metadata": {"name": "app"},
        "command": ["sh", "-c"],
        "envs": [{"key": "A", "value": "b\ufffd"}],
        "labels": {"a": "1"},
        "mounts": [{"container_path": "/d", "host_path": "/h", "propagation": 2}],
        "tty": True,
        "linux": {"resources": {"cpu_quota": 50000}, "security_context": {"run_as_user": {}}},
    }
    assert view.as_asked(pb.ContainerConfig()) == {}
