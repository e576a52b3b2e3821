"""Containers that are created from checkpoints, with scripts instead of conmon and the OCI runtime."""

import asyncio
import json
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound, Permanent, Unsupported
from pykubelet.criserver.container.checkpoint import restorer
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.container.state.container_state import Container, checkpoint_mount
from pykubelet.criserver.images.image_types import SignatureRejected
from pykubelet.criserver.processes import reference
from pykubelet.criserver.runtimes import MonitoredRuntime
from pykubelet.criserver.spec import SandboxView
from pykubelet.criserver.types import ContainerID, ContainerPhase, IdMap, UserNamespace
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criu import NODE_IDS, core, image, images_of, message
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in

_CONFIG = {"rootfsImageRef": "app:1", "name": "app", "checkpointedTime": "2026-01-01T00:00:00Z"}

_IDS = image("ids", message(*(NODE_IDS | {5: 9, 9: 13}).items()))
"""The sandbox of the rig has the node's namespaces."""


def _tree(directory: Path, spec: object, config: object = None, inventory: bool = True, **images: bytes) -> Path:
    (directory / "checkpoint").mkdir(parents=True)
    for name, data in images_of(**{"ids": _IDS} | images).items():
        (directory / "checkpoint" / name).write_bytes(data)
    if not inventory:
        (directory / "checkpoint" / "inventory.img").unlink()
    (directory / "config.dump").write_text(json.dumps(config or _CONFIG))
    (directory / "spec.dump").write_text(json.dumps(spec))
    (directory / "container.log").write_text("an old line\n")
    (directory / "changed").write_text("changed")
    with tarfile.open(directory / "rootfs-diff.tar", "w") as tar:
        tar.add(directory / "changed", "changed")
    (directory / "changed").unlink()
    return directory


def _request(image: str, *command: str) -> pb.ContainerConfig:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"),
        image=pb.ImageSpec(image=image),
        command=command or ["sleep", "60"],
        log_path="app.log",
    )
    config.linux.security_context.namespace_options.pid = pb.CONTAINER
    return config


class RestoreRig:
    """A rig with an archive that fits its containers."""

    def __init__(self, rig: Rig, home: Path) -> None:
        self.rig, self.home = rig, home
        self.archive = home / "archive.tar"
        self.spec: dict[str, Any] = {}

    async def prepare(self) -> None:
        """Learn the specification from a container that is not restored, and write the archive."""
        usual = await self.rig.containers.lifecycle.creator.create(SANDBOX, _request("app:1"))
        bundle = self.rig.deps.directories.bundle(usual)
        self.spec = json.loads((bundle / "config.json").read_text())
        await self.rig.containers.lifecycle.remover.remove(usual)
        (self.home / "logs" / "app.log").unlink(missing_ok=True)
        self.write()

    def write(self, **changes: Any) -> None:
        place = self.home / f"tree-{len(list(self.home.glob('tree-*')))}"
        tree = _tree(place, changes.pop("spec", self.spec), **changes)
        with tarfile.open(self.archive, "w") as tar:
            tar.add(tree, ".")

    async def create(self, *command: str, image: str = "") -> Container:
        made = await self.rig.containers.lifecycle.creator.create(
            SANDBOX, _request(image or str(self.archive), *command)
        )
        return self.rig.containers.table.get(made)

    @property
    def restores(self) -> list[Path]:
        directory = self.rig.deps.directories.restores
        return list(directory.iterdir()) if directory.exists() else []

    async def nothing_is_left(self) -> bool:
        left = [*self.restores, *self.rig.images.held, *self.rig.deps.directories.bundles.iterdir()]
        return not left and await self.rig.store.load() == ([], [])


@asynccontextmanager
async def restore_rig(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RestoreRig]:
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin" / "criu").write_text("#!/bin/sh\n")
    (home / "bin" / "criu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")

    async def unpack(fd: int, what: str, directory: Path, **options: object) -> None:
        with os.fdopen(os.dup(fd), "rb") as file, tarfile.open(fileobj=file) as tar:
            tar.extractall(directory, filter="data")

    monkeypatch.setattr(restorer, "unpack_archive", unpack)
    async with rig_in(home) as rig:
        rig.sandbox.logs = str(home / "logs")
        made = RestoreRig(rig, home)
        await made.prepare()
        yield made


async def test_restored_container_runs_without_a_start_of_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        container = await given.create()
        record, bundle = container.record, given.rig.deps.directories.bundle(container.id)
        assert (
            record.phase is ContainerPhase.CREATED and not given.rig.containers.lifecycle.starter._launcher._prelaunches
        )
        assert (given.rig.images.directory / container.id / "changed").read_text() == "changed"
        # The log is continued, and CRIU gets its options.
        assert Path(record.log_path).read_text() == "an old line\n"
        spec = json.loads((bundle / "config.json").read_text())
        assert Path(spec["annotations"]["org.criu.config"]).read_text() == "tcp-close\n"
        # Its status names the image of its root file system; annotations tell of the checkpoint.
        assert (record.image_id, container.config.image.image) == ("sha256:1", "app@sha256:2")
        assert dict(container.config.annotations) == {
            "restored": "true",
            "checkpointedAt": "2026-01-01T00:00:00Z",
            "checkpointImage": str(given.archive),
        }
        # A retry of the request gets it, without another copy of the files.
        assert (await given.create()).id == container.id and len(given.restores) == 1
        await given.rig.containers.lifecycle.starter.start(container.id)
        assert container.running and given.restores == []
        assert not (tmp_path / "oci" / "started-by-program").exists()
        await given.rig.containers.lifecycle.remover.remove(container.id)
        assert await given.nothing_is_left()


async def test_container_is_restored_from_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        images, find = given.rig.images, given.rig.images.find

        def found(reference: str) -> ImageFacts | None:
            known = find("app:1")
            assert known is not None
            return replace(known, id="sha256:9", checkpoint="app") if reference == "dump:1" else find(reference)

        monkeypatch.setattr(images, "find", found)
        prepare = images.prepare

        async def prepared(image: str, name: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
            directory = await prepare(image, name, user, label)
            if image == "sha256:9" and not (directory / "checkpoint").exists():
                _tree(directory, given.spec)
            return directory

        monkeypatch.setattr(images, "prepare", prepared)
        container = await given.create(image="dump:1")
        assert images.held == {container.id, checkpoint_mount(container.id)}
        assert checkpoint_mount(container.id) in given.rig.containers.table.rootfs_names()
        await given.rig.containers.lifecycle.starter.start(container.id)
        assert images.held == {container.id}
        await given.rig.containers.lifecycle.remover.remove(container.id)
        images.refused.add("dump:1")
        with pytest.raises(SignatureRejected):
            await given.create(image="dump:1")
        assert await given.nothing_is_left()


async def test_checkpoints_that_are_refused_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:

        async def refused(kind: type[Exception], words: str) -> None:
            with pytest.raises(kind, match=words):
                await given.create()
            assert await given.nothing_is_left()
            assert not (tmp_path / "logs" / "app.log").exists()

        given.write(inventory=False)
        await refused(Invalid, "is not a checkpoint")
        given.write(config=_CONFIG | {"rootfsImageRef": "other:1"})
        await refused(NotFound, "its base image 'other:1' is not present; pull it first")
        given.write(config=_CONFIG | {"rootfsImageRef": "other@sha256:1"})
        await refused(NotFound, "is in no registry")
        given.write(spec=given.spec | {"mounts": []})
        await refused(Invalid, "does not fit the container: it lacks the mount")
        given.write(core=core(creds=[(10, 1 << 21)]))
        await refused(Invalid, r"core-1.img has the permitted capabilities CAP_SYS_ADMIN")
        given.write()
        with tarfile.open(given.archive, "a") as tar:
            tar.addfile(tarfile.TarInfo("deleted.files"))
        await refused(Invalid, r"deleted\.files is invalid")
        given.archive.unlink()
        await refused(NotFound, "archive.tar")


async def test_failed_restore_is_a_start_error_with_the_words_of_criu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        container = await given.create()
        Path(container.record.restore, "inventory.img").unlink()
        with pytest.raises(Permanent, match=r"failed to restore container .*; criu: .*no inventory"):
            await given.rig.containers.lifecycle.starter.start(container.id)
        record = container.record
        assert (record.phase, record.reason) == (ContainerPhase.EXITED, "StartError") and given.restores == []
        await given.rig.containers.lifecycle.remover.remove(container.id)
        assert await given.nothing_is_left()


async def test_processes_are_not_restored_into_the_pid_namespace_of_a_process_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would run at once: the check comes before the restore."""
    async with restore_rig(tmp_path, monkeypatch) as given:
        container = await given.create()
        own = reference(os.getpid())
        assert own is not None
        container.record = replace(container.record, namespace_process=replace(own, started=own.started - 1))
        launches: list[object] = []

        async def launch(*given: object) -> None:
            launches.append(given)
            raise Permanent("launched")

        monkeypatch.setattr(MonitoredRuntime, "create", launch)
        with pytest.raises(Permanent, match=f"PID {own.pid}\\) has ended"):
            await given.rig.containers.lifecycle.starter.start(container.id)
        assert container.record.reason == "StartError" and launches == []
        await given.rig.containers.lifecycle.remover.remove(container.id)
        assert await given.nothing_is_left()


async def test_pods_that_cannot_have_restored_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        user = UserNamespace("/ns/user", IdMap(1, 1, 65536, 65536))
        mapped = SandboxView("web", pb.PodSandboxConfig(), {}, "", "", "", "/dev/shm", user)
        with monkeypatch.context() as patched:
            patched.setattr(given.rig.sandbox, "view", lambda sandbox: mapped)
            with pytest.raises(Unsupported, match="user namespace"):
                await given.create()
        with monkeypatch.context() as patched:
            patched.setattr(given.rig.sandbox, "runtime", lambda sandbox: object())
            with pytest.raises(Unsupported, match="only runc and crun"):
                await given.create()
        given.home.joinpath("bin", "criu").unlink()
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unsupported, match="criu is not installed"):
            await given.create()
        directories = replace(given.rig.deps.directories, may_restore=False)
        monkeypatch.setattr(given.rig.containers.checkpoints.restorer, "_directories", directories)
        with pytest.raises(Unsupported, match="enable_experimental_restore_via_create = true"):
            await given.create()
        assert await given.nothing_is_left()


async def test_next_server_keeps_what_a_created_container_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        container = await given.create()
        given.rig.deps.directories.restores.joinpath("unknown").mkdir()
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        rig.containers.checkpoints.restorer.recover()
        await rig.scope.repairs.wait_for_first_attempts(30)
        assert [path.name for path in rig.deps.directories.restores.iterdir()] == [container.id]
        await rig.containers.lifecycle.starter.start(container.id)
        await until(lambda: not list(rig.deps.directories.restores.iterdir()))


async def test_restored_container_whose_start_was_not_recorded_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not restored twice: its processes run since the restore."""
    async with restore_rig(tmp_path, monkeypatch) as given:
        container = await given.create()
        launched = await given.rig.containers.lifecycle.starter._launcher.take(container)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        again = rig.containers.table.get(container.id)
        assert again.running and again.record.process is not None and again.record.process.pid == launched.pid
        rig.containers.checkpoints.restorer.recover()
        await rig.scope.repairs.wait_for_first_attempts(30)
        assert not list(rig.deps.directories.restores.iterdir())
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_sandbox_that_stops_during_the_unpacking_gets_no_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with restore_rig(tmp_path, monkeypatch) as given:
        begun, go_on = asyncio.Event(), asyncio.Event()
        unpack: Any = vars(restorer)["unpack_archive"]

        async def waiting(*arguments: Any, **options: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await unpack(*arguments, **options)

        monkeypatch.setattr(restorer, "unpack_archive", waiting)
        creation = asyncio.create_task(given.create(), name="creation")
        await begun.wait()
        given.rig.sandbox.ready = False
        go_on.set()
        with pytest.raises(Permanent, match="not ready"):
            await creation
        assert await given.nothing_is_left()


async def test_limits_of_what_is_unpacked_and_how_many_are_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker may use gigabytes, and any number of pods can be restored at a time."""
    async with restore_rig(tmp_path, monkeypatch) as given:
        running, most = 0, 0
        limits: dict[bool, Limits] = {}
        unpack: Any = vars(restorer)["unpack_archive"]

        async def counted(*arguments: Any, **options: Any) -> None:
            nonlocal running, most
            limits[options["merged"]] = options["limits"]
            running += 1
            most = max(most, running)
            for _ in range(5):
                await asyncio.sleep(0)
            await unpack(*arguments, **options)
            running -= 1

        monkeypatch.setattr(restorer, "unpack_archive", counted)
        requests = [_request(str(given.archive)) for _ in range(6)]
        for number, request in enumerate(requests):
            request.metadata.name, request.log_path = f"app-{number}", f"app-{number}.log"
        create = given.rig.containers.lifecycle.creator.create
        made = await asyncio.gather(*(create(SANDBOX, request) for request in requests))
        assert len(set(made)) == 6 and most == 2
        archive, changes = limits[False], limits[True]
        assert (archive.only_files, archive.max_entries, archive.max_inodes) == (True, 100_000, 100_000)
        # A million files, each with an extended header: what a checkpoint of this server has at most.
        assert (changes.only_files, changes.max_entries, changes.max_inodes) == (False, 2_000_000, 2_000_000)
        assert archive.reserve == changes.reserve == 0.05
