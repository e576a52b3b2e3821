"""The selection and start of infra processes; conmon and the OCI runtime are small scripts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.machine import Machine, OomKills
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.runtimes import MonitoredRuntime, RuntimeHandlers
from pykubelet.criserver.sandbox import Infra, InfraPrograms, Sandbox, SandboxLayout
from pykubelet.criserver.sandbox import infra as infra_module
from pykubelet.criserver.spec import Host, ImageDefaults
from pykubelet.criserver.types import ContainerID, IdMap, SandboxID, SandboxRecord, UserNamespace
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.linux.procfs import Membership
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.blocking_calls import blocking_calls
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import CONMON, RUNTIME, NoCgroups
from tests.unit.criserver.sandbox.rig import FakeNamespaces
from tests.unit.criserver.spec.given import HOST

ID = SandboxID("s1")
NO_PROGRAM = "no-such-init"


class FakePause:
    """One pause image, or an error."""

    def __init__(self, directory: Path, args: tuple[str, ...], error: PykubeletError | None = None) -> None:
        self._directory = directory
        self._args = args
        self._error = error
        self.asked: list[str] = []
        self.held: set[str] = set()
        self.user: UserNamespace | None = None

    async def ensure(self, reference: str) -> ImageFacts:
        self.asked.append(reference)
        if self._error is not None:
            raise self._error
        defaults = ImageDefaults(self._args[:1], self._args[1:], ("A=b",), "/w")
        return ImageFacts("sha256:1", "pause@sha256:2", defaults, "root", "", ())

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
        self.held.add(container)
        self.user = user
        return self._directory / "rootfs"

    async def release(self, container: ContainerID) -> None:
        self.held.discard(container)


def _script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def infra_in(
    directory: Path,
    images: FakePause,
    program: str,
    pause_image: str,
    *,
    host: Host = HOST,
    programs: InfraPrograms | None = None,
    guest: bool = False,
) -> Infra:
    for name in ("exits", "oci", "tmp", "sandboxes"):
        (directory / name).mkdir()
    oci = OciRuntime(program=_script(directory / "runc", RUNTIME), root=directory / "oci", scratch=directory / "tmp")
    conmon = Conmon(_script(directory / "conmon", CONMON.format(python=sys.executable)), directory / "exits")
    runtime = MonitoredRuntime(oci, conmon)
    runtime.names_host = guest
    namespaces = cast(PinnedNamespaces, FakeNamespaces(directory / "ns"))
    return Infra(
        machine=Machine(
            host=host,
            cgroups=cast(CgroupDriver, NoCgroups()),
            handlers=RuntimeHandlers(runtimes={"runc": runtime}, default="runc"),
            conmon=conmon,
            oom_kills=cast(OomKills, None),
        ),
        images=images,
        layout=SandboxLayout(namespaces=namespaces, directory=directory / "sandboxes"),
        programs=programs or InfraPrograms(node=program, pause_image=pause_image),
    )


def _sandbox(config: pb.PodSandboxConfig | None = None) -> Sandbox:
    record = SandboxRecord(ID, "web", "runc", (config or pb.PodSandboxConfig()).SerializeToString(), 1)
    return Sandbox(record, monotonic=time.monotonic)


def _spec(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "sandboxes" / ID / "infra" / "config.json").read_bytes())
    return found


_LABELLED = structs.replace(
    HOST,
    selinux=True,
    selinux_process="system_u:system_r:container_t:s0",
    selinux_files="system_u:object_r:container_file_t:s0",
)


@pytest.mark.parametrize("privileged", [False, True])
async def test_infra_process_has_the_selinux_labels_of_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privileged: bool
) -> None:
    labelled: list[tuple[str, str]] = []
    monkeypatch.setattr(infra_module, "relabel", lambda path, label: labelled.append((path, label)))
    config = pb.PodSandboxConfig()
    config.linux.security_context.privileged = privileged
    config.linux.security_context.selinux_options.type = "spc_t"
    program = _script(tmp_path / "node-init", "#!/bin/sh\nexec sleep 60\n")
    programs = InfraPrograms(node=program, label="system_u:object_r:container_ro_file_t:s0", copies=tmp_path / "copies")
    infra = infra_in(tmp_path, FakePause(tmp_path, ()), program, "", host=_LABELLED, programs=programs)
    sandbox = _sandbox(config)
    sandbox.record = structs.replace(sandbox.record, selinux_level="s0:c1,c2")
    with pytest.raises(Permanent, match="/init"):  # the script that stands for the runtime does not change its root
        await infra.start(sandbox, {}, None)
    spec = _spec(tmp_path)
    assert spec["linux"]["mountLabel"] == "system_u:object_r:container_file_t:s0:c1,c2"
    (source,) = (each["source"] for each in spec["mounts"] if each["destination"] == "/init")
    if privileged:
        assert ("selinuxLabel" in spec["process"], source) == (False, program)
    else:
        # The label of the system's programs lets no container begin with them.
        copy = tmp_path / "copies" / "init"
        assert (spec["process"]["selinuxLabel"], source) == ("system_u:system_r:spc_t:s0:c1,c2", str(copy))
        assert copy.read_bytes() == Path(program).read_bytes() and copy.stat().st_mode & 0o777 == 0o755
        assert labelled == [(str(copy), "system_u:object_r:container_ro_file_t:s0")]
    await infra.stop(sandbox)


@pytest.mark.parametrize(
    ("guest", "namespaces", "expected"),
    [(True, {"uts": "/uts"}, "web-1"), (True, {}, None), (False, {"uts": "/uts"}, None)],
)
async def test_sandbox_with_a_kernel_of_its_own_gets_the_name_of_the_pod(
    tmp_path: Path, guest: bool, namespaces: dict[str, str], expected: str | None
) -> None:
    """gVisor and virtual machines do not see the name in the pod's UTS namespace; containerd sets it in this spec."""
    infra = infra_in(tmp_path, FakePause(tmp_path, ("sleep", "60")), NO_PROGRAM, "pause:1", guest=guest)
    sandbox = _sandbox(pb.PodSandboxConfig(hostname="web-1"))
    await infra.start(sandbox, namespaces, None)
    assert _spec(tmp_path).get("hostname") == expected
    (tmp_path / "exits" / ID).write_text("0")
    await infra.stop(sandbox)


async def test_pause_image_provides_the_program(tmp_path: Path) -> None:
    images = FakePause(tmp_path, ("sleep", "60"))
    infra = infra_in(tmp_path, images, NO_PROGRAM, "pause:1")
    with blocking_calls() as calls:
        process = await infra.start(_sandbox(), {}, None)
    assert is_alive(process)
    assert "check_labels" not in calls, "it has none"
    spec = _spec(tmp_path)
    assert spec["root"] == {"path": str(tmp_path / "rootfs"), "readonly": True}
    assert (spec["process"]["args"], spec["process"]["cwd"]) == (["sleep", "60"], "/w")
    assert (images.asked, images.held) == (["pause:1"], {ID})
    # As when it has ended by itself.
    (tmp_path / "exits" / ID).write_text("0")
    for _ in range(2):
        await infra.stop(_sandbox())
    assert images.held == set()
    assert not (tmp_path / "sandboxes" / ID / "infra").exists()
    assert list((tmp_path / "exits").iterdir()) == []
    # The script that stands for conmon has put its child into a session of its own.
    await until(lambda: not is_alive(process))


async def test_files_of_an_infra_process_are_used_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path / "node-init", "#!/bin/sh\nexec sleep 60\n")
    infra = infra_in(tmp_path, FakePause(tmp_path, ()), "node-init", "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with files_in_loop(tmp_path) as used:
        with pytest.raises(Permanent, match="/init"):  # the script that stands for the runtime does not change its root
            await infra.start(_sandbox(), {}, None)
        (tmp_path / "exits" / ID).write_text("0")
        used.clear()
        for _ in range(2):
            await infra.stop(_sandbox())
    assert used == []
    assert list((tmp_path / "exits").iterdir()) == []


@pytest.mark.root
async def test_pause_image_in_a_user_namespace_is_mapped_to_it(tmp_path: Path) -> None:
    config = pb.PodSandboxConfig()
    options = config.linux.security_context.namespace_options
    for mapping in (options.userns_options.uids, options.userns_options.gids):
        mapping.add(host_id=500000, container_id=0, length=65536)
    user = UserNamespace("/ns/user", IdMap(500000, 500000, 65536, 65536))
    images = FakePause(tmp_path, ("sleep", "60"))
    infra = infra_in(tmp_path, images, NO_PROGRAM, "pause:1")
    await infra.start(_sandbox(config), {"user": user.path}, user)
    assert images.user == user
    spec = _spec(tmp_path)
    assert {"type": "user", "path": user.path} in cast(list[object], spec["linux"]["namespaces"])
    assert spec["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 500000, "size": 65536}]
    assert spec["process"]["user"] == {"uid": 65535, "gid": 65535}
    bundle = (tmp_path / "sandboxes" / ID / "infra").stat()
    assert (bundle.st_gid, bundle.st_mode & 0o777) == (500000, 0o710)
    (tmp_path / "exits" / ID).write_text("0")
    await infra.stop(_sandbox(config))


@pytest.mark.parametrize(
    ("pause_image", "images", "words"),
    [
        ("", FakePause(Path(), ()), ""),
        ("pause:1", FakePause(Path(), (), Transient("registry is down")), "registry is down"),
        ("pause:1", FakePause(Path(), ()), "defines no program"),
    ],
)
async def test_node_program_replaces_an_unusable_pause_image(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, pause_image: str, images: FakePause, words: str
) -> None:
    infra = infra_in(tmp_path, images, "true", pause_image)
    # There is no /init on this machine, which is all that the script that stands for conmon looks for.
    with pytest.raises(Permanent, match="/init"):
        await infra.start(_sandbox(), {}, None)
    spec = _spec(tmp_path)
    assert spec["process"]["args"] == ["/init", "-P"]
    assert str(spec["root"]["path"]).endswith(f"{ID}/infra/root")
    warnings = [str(getattr(entry, "why", "")) for entry in caplog.records if entry.levelname == "WARNING"]
    assert [words in why for why in warnings] == ([True] if words else [])
    await infra.stop(_sandbox())


@pytest.mark.parametrize("pause_image", ["", "pause:1"])
async def test_missing_program_is_an_error_with_the_remedy(tmp_path: Path, pause_image: str) -> None:
    images = FakePause(tmp_path, (), Transient("registry is down"))
    infra = infra_in(tmp_path, images, NO_PROGRAM, pause_image)
    with pytest.raises(Permanent, match=f"{NO_PROGRAM} does not exist: install it .*pause_image") as failed:
        await infra.start(_sandbox(), {}, None)
    assert ("registry is down" in str(failed.value)) is bool(pause_image)
    await infra.stop(_sandbox())


@contextmanager
def _process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        try:
            # The kernel sets the arguments shortly after the program has begun.
            given = tuple(map(os.fsencode, argv))
            wait_for(lambda: procfs.arguments(process.pid) == given, 10, lambda: "it has no arguments yet")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not-noted"])
@pytest.mark.parametrize("imposter", ["monitor", "reused-pid", "posing"])
async def test_stop_signals_only_the_monitor_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool, imposter: str
) -> None:
    """Neither a process that has the PID of the monitor now, nor one in a container with the monitor's arguments."""
    infra = infra_in(tmp_path, FakePause(tmp_path, ()), NO_PROGRAM, "")
    bundle = tmp_path / "sandboxes" / ID / "infra"
    bundle.mkdir(parents=True)
    sandbox = "another" if imposter == "reused-pid" else ID
    # The script that stands for conmon is found by its arguments; this shell reads its input and ignores them.
    with _process("sh", "-s", str(tmp_path / "conmon"), "-c", sandbox) as process:
        if noted:
            (bundle / "conmon.pid").write_text(str(process.pid))
        if imposter == "posing":
            cgroups, inside = procfs.cgroups, (Membership((), f"/kubepods/{'a' * 64}"),)
            monkeypatch.setattr(procfs, "cgroups", lambda pid: inside if pid == process.pid else cgroups(pid))
        await infra.stop(_sandbox())
        assert not bundle.exists()
        assert (process.poll() is not None) is (imposter == "monitor")
