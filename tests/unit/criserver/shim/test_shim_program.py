"""The program of a shim: its name, options, replies of ``start`` in both forms, and ``delete``."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.criserver.shim.shim_program import Bootstrap, ShimProgram, binary
from pykubelet.criserver.shim.task_client import ProcessEnd
from pykubelet.pb import shim_task_pb2 as api


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("io.containerd.kata.v2", "containerd-shim-kata-v2"),
        ("io.containerd.runc.v2", "containerd-shim-runc-v2"),
        ("io.containerd.wasmtime.v1", "containerd-shim-wasmtime-v1"),
        ("aws.firecracker", "aws.firecracker"),
        ("containerd-shim-runsc-v1", "containerd-shim-runsc-v1"),
        ("/opt/kata/bin/containerd-shim-kata-v2", "/opt/kata/bin/containerd-shim-kata-v2"),
    ],
)
def test_types_of_containerd_name_the_program(name: str, program: str) -> None:
    assert binary(name) == program


def _program(directory: Path, script: str, name: str = "containerd-shim-test-v1", **options: str | bool) -> ShimProgram:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return ShimProgram(str(path), options, state=directory / "state", systemd=False)


def test_missing_program_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="containerd-shim-none-v1 is not installed"):
        ShimProgram("io.containerd.none.v1", {}, state=tmp_path, systemd=False)


def test_options_are_encoded_as_the_shim_expects_them(tmp_path: Path) -> None:
    runc = _program(tmp_path, "", "containerd-shim-runc-v2", BinaryName="crun")
    assert runc.options is not None
    assert runc.options.type_url == "containerd.runc.v1.Options"
    found = api.RuncOptions.FromString(runc.options.value)
    assert (found.binary_name, found.root, found.systemd_cgroup) == ("crun", str(tmp_path / "state"), False)
    other = _program(tmp_path, "", TypeUrl="io.containerd.runsc.v1.options", ConfigPath="/etc/runsc.toml")
    assert other.options is not None
    assert other.options.type_url == "runtimeoptions.v1.Options"
    assert api.RuntimeOptions.FromString(other.options.value).config_path == "/etc/runsc.toml"
    assert _program(tmp_path, "").options is None
    with pytest.raises(Invalid, match="has no option 'BinaryName'; it has: TypeUrl, ConfigPath"):
        _program(tmp_path, "", BinaryName="runc")
    with pytest.raises(Invalid, match="wrong type"):
        _program(tmp_path, "", "containerd-shim-runc-v2", SystemdCgroup="yes")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("unix:///run/s/1", Bootstrap("unix:///run/s/1", 2)),
        ('{"version":3,"address":"unix:///run/s/1","protocol":"ttrpc"}', Bootstrap("unix:///run/s/1", 3)),
    ],
)
async def test_start_understands_both_forms_of_the_reply(tmp_path: Path, said: str, expected: Bootstrap) -> None:
    script = f"pwd > pwd; echo \"$@\" > argv; echo $TTRPC_ADDRESS > events; cat > options; echo '{said}'"
    program = _program(tmp_path, script, ConfigPath="/c")
    (tmp_path / "b").mkdir()
    found = await program.start("s1", tmp_path / "b", tmp_path / "events")
    assert (found, found.path) == (expected, "/run/s/1")
    assert (tmp_path / "b/pwd").read_text().strip() == str(tmp_path / "b")
    words = (tmp_path / "b/argv").read_text().split()
    assert words[:2] == ["-namespace", "k8s.io"]
    assert words[-3:] == ["-id", "s1", "start"]
    assert (tmp_path / "b/events").read_text().strip() == str(tmp_path / "events")
    assert program.options is not None
    assert (tmp_path / "b/options").read_bytes() == program.options.SerializeToString()


async def test_shim_that_refuses_options_is_given_parameters(tmp_path: Path) -> None:
    """As those that are built with containerd 2.3 or later; it is remembered for the next start."""
    refusal = "shim was started through the deprecated API but was built against the new API"
    result = api.BootstrapResult(version=3, address="unix:///run/s/1", protocol="ttrpc").SerializeToString()
    (tmp_path / "result").write_bytes(result)
    script = f"echo start >> starts; cat > given; grep -q newer given || {{ echo {refusal} >&2; exit 1; }}; cat result"
    program = _program(tmp_path, script, ConfigPath="/c")
    for starts, task in ((2, "newer-1"), (3, "newer-2")):
        found = await program.start(task, tmp_path, tmp_path / "events")
        assert found == Bootstrap("unix:///run/s/1", 3, "ttrpc")
        assert (tmp_path / "starts").read_text().count("start") == starts
    given = api.BootstrapParams.FromString((tmp_path / "given").read_bytes())
    assert (given.instance_id, given.namespace, given.containerd_ttrpc_address) == (
        "newer-2",
        "k8s.io",
        str(tmp_path / "events"),
    )
    assert [each.value for each in given.extensions] == [program.options]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo the deprecated API >&2; exit 1", "does not start: the deprecated API"),
        ("printf '\\010\\003\\022\\001'", "unknown reply"),
        ("printf '\\022\\010unix:///'", "speaks  version 0"),
        ("echo no kvm >&2; exit 1", "does not start: no kvm"),
        ("echo hello", "speaks ttrpc version 2 at 'hello'"),
        ('echo \'{"version":3,"address":"unix:///s","protocol":"grpc"}\'', "speaks grpc version 3"),
        ("echo '{'", "unknown reply"),
        ("echo '{\"a\":'; head -c 60000 /dev/zero | tr '\\0' '['", "unknown reply"),
        ("printf x; head -c 1000000 /dev/urandom", "speaks ttrpc version 2 at ['\"]x"),
        ("head -c 1000000 /dev/zero | tr '\\0' 'a'", "speaks ttrpc version 2 at 'aaaa"),
        ("echo unix://run/s", "not the address of a unix socket"),
        ("printf 'unix:///run/s\\000x'", "not the address of a unix socket"),
        ("echo unix:///$(head -c 107 /dev/zero | tr '\\0' 'a')", "not the address of a unix socket"),
    ],
)
async def test_start_that_fails_says_why(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(Permanent, match=words) as raised:
        await _program(tmp_path, script).start("s1", tmp_path, tmp_path / "events")
    assert len(str(raised.value)) < 2000


async def test_delete_returns_the_exit_that_the_program_tells(tmp_path: Path) -> None:
    reply = api.DeleteResponse(exit_status=137)
    reply.exited_at.FromNanoseconds(5)
    (tmp_path / "reply").write_bytes(reply.SerializeToString())
    assert await _program(tmp_path, "cat reply").delete("c1", tmp_path, tmp_path / "events") == ProcessEnd(137, 5)
    assert await _program(tmp_path, "").delete("c1", tmp_path, tmp_path / "events") is None
    with pytest.raises(Permanent, match="delete: cannot unmount"):
        await _program(tmp_path, "echo cannot unmount >&2; exit 1").delete("c1", tmp_path, tmp_path / "events")
