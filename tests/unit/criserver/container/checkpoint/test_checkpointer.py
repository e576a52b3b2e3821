"""CheckpointContainer with an OCI runtime that is a script: order of its calls, errors, and what a crash leaves."""

import asyncio
import errno
import json
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Conflict, Invalid, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.criserver.container.checkpoint.checkpointer import ContainerCheckpointer
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.oci import OciRuntime, call_directory
from pykubelet.criserver.runtimes import MonitoredRuntime
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import until

ID = ContainerID("c1")
RUNTIME = """#!/bin/sh
# Notes its calls, freezes by a file, and writes an image; "checkpoint" waits or fails if a file says so.
for last; do :; done
case "$*" in
*" pause "*) echo pause >> {home}/calls; touch {home}/frozen ;;
*" resume "*) echo resume >> {home}/calls; [ -e {home}/frozen ] || {{ echo container not paused >&2; exit 1; }}
    rm {home}/frozen ;;
*" checkpoint "*)
    echo checkpoint >> {home}/calls
    [ -e {home}/frozen ] || exit 2
    while [ -e {home}/wait ]; do sleep 0.05; done
    mkdir {work}/checkpoint
    if [ -e {home}/fail ]; then echo '(00.1) Error (criu/x.c:1): no reason' > {work}/dump.log; exit 1; fi
    echo core > {work}/checkpoint/core-1.img ;;
esac
"""


class Rig:
    def __init__(self, home: Path, tasks: asyncio.TaskGroup) -> None:
        self.home = home
        self.work = home / "checkpoints" / ID
        (home / "bin").mkdir(exist_ok=True)
        for name, text in (("runc", RUNTIME.format(home=home, work=self.work)), ("criu", "#!/bin/sh\n")):
            (home / "bin" / name).write_text(text)
            (home / "bin" / name).chmod(0o755)
        (home / "containers" / ID / "upper").mkdir(parents=True, exist_ok=True)
        (home / "containers" / ID / "upper" / "changed").touch()
        (home / "bundles" / ID).mkdir(parents=True, exist_ok=True)
        (home / "bundles" / ID / "config.json").write_text('{"ociVersion": "1"}')
        (home / "log").write_text("a line\n")
        self.runtime = self.of("runc")
        self.user: object | None = None
        record = SimpleNamespace(
            id=ID, sandbox_id="s1", image_ref="app@sha256:1", created_at=10**18, log_path=str(home / "log")
        )
        config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"))
        container = SimpleNamespace(id=ID, record=record, config=config)
        self.scope = ServerScope.of(tasks, SystemClock())
        self.checkpointer = ContainerCheckpointer(
            table=cast(Any, SimpleNamespace(running=lambda _: container, find=lambda _: container)),
            sandboxes=cast(
                Any,
                SimpleNamespace(runtime=lambda _: self.runtime, view=lambda _: SimpleNamespace(user=self.user)),
            ),
            directories=Directories(
                bundles=home / "bundles",
                exits=home,
                seccomp=home,
                root_filesystems=home / "containers",
                checkpoints=home / "checkpoints",
                restores=home / "restores",
                mapped=home,
            ),
            scope=self.scope,
        )

    def of(self, program: str) -> MonitoredRuntime:
        oci = OciRuntime(program=program, root=self.home / "oci", scratch=self.home)
        return MonitoredRuntime(oci, cast(Any, None))

    async def write(self, location: str = "", timeout: float = 0.0) -> None:
        await self.checkpointer.checkpoint("c1", location or str(self.home / "out.tar"), timeout, '{"state": 1}')

    def calls(self) -> list[str]:
        path = self.home / "calls"
        return path.read_text().split() if path.exists() else []

    def clean(self) -> bool:
        """Whether nothing is frozen, and no files are left."""
        return not (self.home / "frozen").exists() and not list((self.home / "checkpoints").iterdir())


@asynccontextmanager
async def rig_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    async with asyncio.TaskGroup() as tasks:
        yield Rig(home, tasks)


async def test_archive_has_the_files_that_checkpointctl_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path, monkeypatch) as rig:
        await rig.write()
        assert rig.calls() == ["pause", "checkpoint", "resume"] and rig.clean()
    with tarfile.open(tmp_path / "out.tar") as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        content = {name: file.read() for name, file in files.items() if file is not None}
    assert content["checkpoint/core-1.img"] == b"core\n" and content["container.log"] == b"a line\n"
    assert json.loads(content["spec.dump"]) == {"ociVersion": "1"} and json.loads(content["status.dump"]) == {
        "state": 1
    }
    described = json.loads(content["config.dump"])
    assert described.pop("checkpointedTime").endswith("Z")
    assert described == {
        "id": ID,
        "name": "app",
        "rootfsImage": "app:1",
        "rootfsImageRef": "app@sha256:1",
        "rootfsImageName": "app:1",
        "runtime": "runc",
        "createdTime": "2001-09-09T01:46:40Z",
        "restoredTime": "1970-01-01T00:00:00Z",
        "restored": False,
    }
    assert b"changed" in content["rootfs-diff.tar"]


async def test_log_is_that_of_the_moment_of_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that the container writes after the dump are written again by the restored one."""
    async with rig_in(tmp_path, monkeypatch) as rig:
        resumed = rig.home / "bin" / "runc"
        resumed.write_text(
            resumed.read_text().replace('*" resume "*)', f'*" resume "*) echo "a later line" >> {rig.home}/log;')
        )
        await rig.write()
    with tarfile.open(tmp_path / "out.tar") as tar:
        log = tar.extractfile("container.log")
        assert log is not None and log.read() == b"a line\n"
    assert (tmp_path / "log").read_text() == "a line\na later line\n"


async def test_failed_checkpoint_resumes_the_container_and_names_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, monkeypatch) as rig:
        (tmp_path / "fail").touch()
        words = r"runc checkpoint: .*; criu: .*Error \(criu/x.c:1\): no reason"
        with files_in_loop(rig.work) as used, pytest.raises(Permanent, match=words):
            await rig.write()
        assert used == []
        assert rig.calls()[-1] == "resume" and rig.clean() and not (tmp_path / "out.tar").exists()


async def test_checkpoint_that_takes_too_long_resumes_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, monkeypatch) as rig:
        (tmp_path / "wait").touch()
        first = asyncio.create_task(rig.write(timeout=3600.0), name="first")
        await until(lambda: "checkpoint" in rig.calls())
        with pytest.raises(Conflict, match="is being checkpointed already"):
            await rig.write()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert rig.clean()
        with pytest.raises(Transient, match="took over"):
            await rig.write(timeout=0.2)
        assert rig.clean()
        (tmp_path / "wait").unlink()
        await rig.write()


@pytest.mark.parametrize("lack", ["process", "thread", "scratch"])
async def test_container_that_cannot_be_resumed_for_the_moment_is_resumed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    """Otherwise one full process table leaves it frozen for good."""
    async with rig_in(tmp_path, monkeypatch) as rig:
        if lack == "process":  # this server cannot start the runtime
            start = subprocess.Popen

            def lacking(argv: list[str], **options: Any) -> Any:
                if "resume" in argv and not (tmp_path / "lacked").exists():
                    (tmp_path / "lacked").touch()
                    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                return start(argv, **options)

            monkeypatch.setattr(subprocess, "Popen", lacking)
        elif lack == "thread":  # the runtime itself cannot run
            runc = tmp_path / "bin" / "runc"
            fails = f'[ -e {tmp_path}/lacked ] || {{ touch {tmp_path}/lacked; echo "no new OS thread" >&2; exit 2; }};'
            runc.write_text(runc.read_text().replace('*" resume "*)', f'*" resume "*) {fails}'))
        else:  # there is no room for the files of the call
            make = call_directory._make
            made: list[Path] = []

            def full(directory: Path, files: Mapping[str, str]) -> None:
                made.append(directory)
                if len(made) == 3:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                make(directory, files)

            monkeypatch.setattr(call_directory, "_make", full)
        with pytest.raises((PykubeletError, OSError), match=r"temporarily unavailable|OS thread|No space left"):
            await rig.write()
        assert (tmp_path / "frozen").exists() and rig.work.exists()
        await rig.scope.repairs.wait_for_first_attempts(30)
        assert rig.clean() and rig.scope.repairs.unfinished() == []
        await rig.write()


async def test_next_server_thaws_a_container_and_removes_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, monkeypatch) as rig:
        rig.work.mkdir(parents=True)
        (rig.work / "partial").touch()
        (tmp_path / "frozen").touch()
        rig.checkpointer.recover()
        await rig.scope.repairs.wait_for_first_attempts(30)
        assert rig.calls() == ["resume"] and rig.clean()


async def test_containers_that_cannot_be_checkpointed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path, monkeypatch) as rig:
        with pytest.raises(Invalid, match="must be an absolute path"):
            await rig.write("out.tar")
        rig.user = object()
        with pytest.raises(Unsupported, match="has a user namespace"):
            await rig.write()
        rig.user, known = None, rig.runtime
        rig.runtime = rig.of("true")
        with pytest.raises(Unsupported, match="only runc and crun are known to checkpoint containers"):
            await rig.write()
        rig.runtime = known
        (tmp_path / "bin" / "criu").unlink()
        with pytest.raises(Unsupported, match="criu is not installed"):
            await rig.write()
        assert rig.calls() == []
