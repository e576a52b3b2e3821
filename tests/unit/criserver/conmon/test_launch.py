"""conmon's files and replies, with a script instead of conmon."""

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.criserver.conmon import Conmon, Exit, LaunchedContainer, LaunchParameters, read_exit, reopen_log
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.types import ContainerID
from pykubelet.testing.loop_files import files_in_loop

ID = ContainerID("c1")
SCRIPT = """#!{python}
import os, sys
arguments = sys.argv[1:]
bundle = arguments[arguments.index("-b") + 1]
open(bundle + "/argv", "w").write(" ".join(arguments))
open(bundle + "/conmon.pid", "w").write("77")
open("oom", "w")
os.write(int(os.environ["_OCI_SYNCPIPE"]), {reply!r})
"""


def _launch(directory: Path, reply: bytes) -> tuple[Conmon, LaunchParameters]:
    directory.mkdir(exist_ok=True)
    program = directory / "conmon"
    program.write_text(SCRIPT.format(python=sys.executable, reply=reply))
    program.chmod(0o755)
    bundle = directory / "bundle"
    bundle.mkdir()
    runtime = OciRuntime(program="true", root=directory / "oci", scratch=directory)
    return Conmon(str(program), directory / "exits"), LaunchParameters(
        ID, bundle, directory / "log", runtime, stdin=True
    )


async def test_launch_returns_the_processes_of_a_created_container(tmp_path: Path) -> None:
    conmon, launch = _launch(tmp_path, b'{"data": 42}\n')
    assert await conmon.launch(launch) == LaunchedContainer(42, 77)
    said = (tmp_path / "bundle/argv").read_text()
    assert f"-l k8s-file:{tmp_path}/log" in said
    assert f"--runtime-arg=--root={tmp_path}/oci" in said
    assert " -i " in said
    assert " -t " not in said


async def test_files_of_a_created_container_are_read_in_a_thread(tmp_path: Path) -> None:
    conmon, launch = _launch(tmp_path, b'{"data": 42}\n')
    failing, lacking = _launch(tmp_path / "other", b'{"data": -1}\n')
    with files_in_loop(tmp_path) as used:
        await conmon.launch(launch)
        with pytest.raises(Permanent, match="gave no reason"):
            await failing.launch(lacking)
    assert used == []


async def test_oom_kill_noted_by_conmon_is_that_of_the_container(tmp_path: Path) -> None:
    """conmon notes it in its working directory, as CRI-O expects it, too."""
    conmon, launch = _launch(tmp_path, b'{"data": 42}\n')
    await conmon.launch(launch)
    conmon.exits.mkdir()
    (conmon.exits / ID).write_text("0")
    noted = read_exit(conmon.exits, launch.bundle, ID)
    assert noted is not None and noted.oom_killed
    assert conmon.exit_of(ID, launch.bundle) == noted
    silent = Conmon(conmon.path, conmon.exits, trust_oom_notes=False)
    assert silent.exit_of(ID, launch.bundle) == replace(noted, oom_killed=False)


@pytest.mark.parametrize(("name", "flag"), [("runc", True), ("crun", True), ("runsc", False)])
async def test_keyring_flag_only_for_runtimes_that_support_it(tmp_path: Path, name: str, flag: bool) -> None:
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    conmon, launch = _launch(tmp_path, b'{"data": 42}\n')
    await conmon.launch(
        replace(launch, runtime=OciRuntime(program=str(program), root=tmp_path / "oci", scratch=tmp_path))
    )
    assert ("--no-new-keyring" in (tmp_path / "bundle/argv").read_text()) is flag


async def test_container_is_restored_with_the_flags_of_that_command(tmp_path: Path) -> None:
    """``runc restore`` has no flag for keyrings."""
    conmon, launch = _launch(tmp_path, b'{"data": 42}\n')
    (tmp_path / "runc").write_text("#!/bin/sh\n")
    (tmp_path / "runc").chmod(0o755)
    runtime = OciRuntime(program=str(tmp_path / "runc"), root=tmp_path / "oci", scratch=tmp_path)
    await conmon.launch(replace(launch, runtime=runtime, restore=tmp_path / "images"))
    said = (tmp_path / "bundle/argv").read_text()
    assert f"--restore {tmp_path}/images --runtime-opt=--file-locks" in said and "keyring" not in said


async def test_failed_restore_is_reported_with_the_first_error_of_criu(tmp_path: Path) -> None:
    conmon, launch = _launch(tmp_path, b'{"data": -1, "message": "criu failed"}\n')
    log = f"(0) a step\n(first) Error (criu/x.c:1): {'x' * 10_000}\n(1) Error (criu/y.c:1): undone\n"
    (tmp_path / "bundle/restore.log").write_text(log)
    with pytest.raises(Permanent, match=r"failed to restore container c1: criu failed; criu: \(first\)") as caught:
        await conmon.launch(replace(launch, restore=tmp_path / "images"))
    assert len(str(caught.value)) < 1500


async def test_error_of_the_runtime_is_reported(tmp_path: Path) -> None:
    conmon, launch = _launch(tmp_path, b'{"data": -1, "message": "raw"}\n')
    with pytest.raises(Permanent, match="raw"):
        await conmon.launch(launch)
    (tmp_path / "bundle/oci.log").write_text('{"level":"error","msg":"no such file"}\nnot json\n')
    with pytest.raises(Permanent, match="no such file"):
        await conmon.launch(launch)


async def test_conmon_that_dies_is_a_transient_error(tmp_path: Path) -> None:
    conmon, launch = _launch(tmp_path, b"")
    with pytest.raises(Transient, match="died"):
        await conmon.launch(launch)


def test_missing_conmon_is_not_found() -> None:
    with pytest.raises(NotFound, match="apt-get install conmon"):
        Conmon("no-such-conmon", Path("/"))


@pytest.mark.parametrize(("text", "code"), [("0", 0), ("137", 137), ("", 255)])
def test_exit_files_are_read(tmp_path: Path, text: str, code: int) -> None:
    assert read_exit(tmp_path, tmp_path, ID) is None
    (tmp_path / ID).write_text(text)
    os.utime(tmp_path / ID, ns=(5, 7))
    assert read_exit(tmp_path, tmp_path, ID) == Exit(code, 7, False)
    (tmp_path / "oom").touch()
    found = read_exit(tmp_path, tmp_path, ID)
    assert found is not None
    assert found.oom_killed


def test_logs_are_reopened_through_the_fifo(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        reopen_log(tmp_path)
    os.mkfifo(tmp_path / "ctl")
    with pytest.raises(NotFound):
        reopen_log(tmp_path)
    reader = os.open(tmp_path / "ctl", os.O_RDONLY | os.O_NONBLOCK)
    try:
        reopen_log(tmp_path)
        assert os.read(reader, 100) == b"2 0 0\n"
    finally:
        os.close(reader)
