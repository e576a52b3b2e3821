"""Containers that CreateContainer makes of requests, and the requests that it refuses."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.bundle import bundle_maker, prepare
from pykubelet.criserver.images.image_types import SignatureRejected
from pykubelet.criserver.spec import SandboxView
from pykubelet.criserver.types import ContainerID, ContainerPhase, IdMap, UserNamespace
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.container import rig as container_rig
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in
from tests.unit.criserver.spec.given import HOST


def _config(**fields: object) -> pb.ContainerConfig:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"), command=["true"]
    )
    config.linux.security_context.namespace_options.pid = pb.CONTAINER
    config.MergeFrom(pb.ContainerConfig(**fields))  # type: ignore[arg-type]  # fields of the message
    return config


async def _refused(rig: Rig, config: pb.ContainerConfig, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        await rig.containers.lifecycle.creator.create(SANDBOX, config)
    assert rig.containers.table.of_sandbox(SANDBOX) == []
    assert await rig.store.load() == ([], [])


async def test_container_without_a_name_is_refused(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        config = _config()
        config.metadata.name = ""
        await _refused(rig, config, "needs a name")


async def test_unknown_stop_signal_of_an_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the creation, and not when the container is to be stopped."""
    async with rig_in(tmp_path) as rig:
        image = rig.images.find("app:1")
        assert image is not None
        image = type(image)(image.id, image.reference, image.defaults, image.user, "SIGNONE", image.volumes)
        monkeypatch.setattr(rig.images, "find", lambda reference: image)
        await _refused(rig, _config(), "SIGNONE")


async def test_container_of_an_artifact_is_refused_with_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        image = rig.images.find("app:1")
        assert image is not None
        monkeypatch.setattr(rig.images, "find", lambda reference: replace(image, artifact_type="application/x.model"))
        await _refused(rig, _config(), r"is an artifact of type application/x\.model, not a container image")


@pytest.mark.parametrize("mounted", [False, True], ids=["its own image", "a mounted image"])
async def test_image_that_the_policy_does_not_permit_leaves_no_container(tmp_path: Path, mounted: bool) -> None:
    """The name that counts is the one that the user has specified; the kubelet names the image by its id."""
    async with rig_in(tmp_path) as rig:
        rig.images.refused = {"r.example/team/app:1"}
        config = _config()
        image = pb.ImageSpec(image="app:1", user_specified_image="r.example/team/app:1")
        if mounted:
            config.mounts.append(pb.Mount(container_path="/v", image=image, readonly=True))
        else:
            config.image.CopyFrom(image)
        with pytest.raises(SignatureRejected):
            await rig.containers.lifecycle.creator.create(SANDBOX, config)
        assert rig.containers.table.of_sandbox(SANDBOX) == [] and await rig.store.load() == ([], [])
        assert rig.images.held == set()


@pytest.mark.parametrize("name", ["../log", "a/../../log", "a/..", "/log"])
async def test_log_path_that_leads_out_of_the_log_directory_is_refused(tmp_path: Path, name: str) -> None:
    async with rig_in(tmp_path) as rig:
        rig.sandbox.logs = str(tmp_path / "logs")
        await _refused(rig, _config(log_path=name), "must be relative and stay in")


@pytest.mark.parametrize("directory", ["/dev", "//dev/", "/tmp/../dev"])
async def test_log_that_would_replace_a_device_of_the_node_is_refused(tmp_path: Path, directory: str) -> None:
    async with rig_in(tmp_path) as rig:
        rig.sandbox.logs = directory
        await _refused(rig, _config(log_path="null"), "must not be below /dev")


@pytest.mark.parametrize(
    ("directory", "name", "expected"),
    [
        ("", "log", ""),
        ("{0}/logs", "", ""),
        ("{0}/logs", "app/0.log", "{0}/logs/app/0.log"),
        ("{0}/logs/", "..log", "{0}/logs/..log"),
    ],
)
async def test_log_is_in_the_log_directory_of_the_sandbox(
    tmp_path: Path, directory: str, name: str, expected: str
) -> None:
    async with rig_in(tmp_path) as rig:
        rig.sandbox.logs = directory.format(tmp_path)
        identity = await rig.containers.lifecycle.creator.create(SANDBOX, _config(log_path=name))
        assert rig.containers.table.get(identity).record.log_path == expected.format(tmp_path)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_mounted_images_are_recorded_with_their_ids(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        mounts = [
            pb.Mount(container_path="/host", host_path=str(tmp_path)),
            pb.Mount(container_path="/image", readonly=True, image=pb.ImageSpec(image="app:1")),
        ]
        identity = await rig.containers.lifecycle.creator.create(SANDBOX, _config(mounts=mounts))
        container = rig.containers.table.get(identity)
        first, second = container.config.mounts
        assert not first.HasField("image")
        assert (second.image.image, second.image.image_ref) == ("app:1", "sha256:1")
        assert container.config.command == ["true"]
        assert rig.images.held == {identity, f"{identity}-image-1"}
        await rig.containers.lifecycle.remover.remove(identity)
        assert rig.images.held == set()


def _mapped(host: int) -> pb.NamespaceOption:
    mappings = [pb.IDMapping(host_id=host, length=65536)]
    userns = pb.UserNamespace(mode=pb.POD, uids=mappings, gids=mappings)
    return pb.NamespaceOption(pid=pb.CONTAINER, userns_options=userns)


@pytest.mark.parametrize(("pod", "refused"), [(None, True), (200_000, True), (100_000, False)])
async def test_user_namespace_other_than_that_of_the_sandbox_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: int | None, refused: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        user = None if pod is None else UserNamespace("/ns/user", IdMap(pod, pod, 65536, 65536))
        view = SandboxView("web", pb.PodSandboxConfig(), {}, "", "", "", "/dev/shm", user)
        monkeypatch.setattr(rig.sandbox, "view", lambda sandbox: view)
        config = _config()
        config.linux.security_context.namespace_options.CopyFrom(_mapped(100_000))
        if refused:
            await _refused(rig, config, "user namespace other than its sandbox's")
        else:
            made = await rig.containers.lifecycle.creator.create(SANDBOX, config)
            assert rig.containers.table.get(made).record.phase is ContainerPhase.CREATED


async def test_failed_creation_searches_for_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was launched, so neither its cgroup nor /proc is read, which takes long on a busy node."""
    async with rig_in(tmp_path) as rig:

        async def broken(*_: object) -> Path:
            raise OSError(5, "an I/O error")

        monkeypatch.setattr(rig.images, "prepare", broken)
        with pytest.raises(OSError, match="an I/O error"):
            await rig.containers.lifecycle.creator.create(SANDBOX, _config())
        assert rig.cgroups.deleted == []


async def test_container_of_another_name_is_not_touched_by_a_creation(tmp_path: Path) -> None:
    """Neither while it is created, nor when its removal has failed: it may belong to another call."""
    async with rig_in(tmp_path) as rig:
        other = await rig.create("sleep", "60", attempt=1)
        half = rig.containers.table.add(other.record)
        half.record = half.moved(ContainerPhase.REMOVING)
        assert half.leftover
        identity: ContainerID = await rig.containers.lifecycle.creator.create(SANDBOX, _config())
        assert [each.id for each in rig.containers.table.of_sandbox(SANDBOX)] == [other.id, identity]
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_files_get_the_selinux_label_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = replace(HOST, selinux=True, selinux_process="u:r:t:s0", selinux_files="u:object_r:f:s0")
    monkeypatch.setattr(container_rig, "HOST", host)
    relabelled: list[tuple[str, str]] = []
    monkeypatch.setattr(prepare, "relabel", lambda path, label, _: relabelled.append((path, label)))
    prepared: list[str] = []
    async with rig_in(tmp_path) as rig:
        view, mount = rig.sandbox.view, rig.images.prepare
        monkeypatch.setattr(rig.sandbox, "view", lambda sandbox: replace(view(sandbox), selinux_level="s0:c1,c2"))

        async def noting(image: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
            prepared.append(label)
            return await mount(image, container, user, label)

        monkeypatch.setattr(rig.images, "prepare", noting)
        config = _config()
        config.mounts.add(container_path="/a", host_path=str(tmp_path / "a"), selinux_relabel=True)
        config.mounts.add(container_path="/b", host_path=str(tmp_path / "b"))
        identity = await rig.containers.lifecycle.creator.create(SANDBOX, config)
        label = "u:object_r:f:s0:c1,c2"
        assert relabelled == [(str(tmp_path / "a"), label), (f"/volumes/{identity}", label)]
        assert prepared == [label]


async def test_label_that_the_policy_does_not_know_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = replace(HOST, selinux=True, selinux_process="u:r:t:s0", selinux_files="u:object_r:f:s0")
    monkeypatch.setattr(container_rig, "HOST", host)

    def refusing(*labels: str) -> None:
        assert labels == ("u:r:absent_t:s0:c1,c2", "u:object_r:f:s0:c1,c2")
        raise Invalid(f"unknown: {labels[0]}")

    monkeypatch.setattr(bundle_maker, "check_labels", refusing)
    async with rig_in(tmp_path) as rig:
        view = rig.sandbox.view
        monkeypatch.setattr(rig.sandbox, "view", lambda sandbox: replace(view(sandbox), selinux_level="s0:c1,c2"))
        config = _config()
        config.linux.security_context.selinux_options.type = "absent_t"
        with pytest.raises(Invalid, match="unknown: u:r:absent_t:s0:c1,c2"):
            await rig.containers.lifecycle.creator.create(SANDBOX, config)
        assert not rig.images.directory.exists() and not rig.containers.table.of_sandbox(SANDBOX)
