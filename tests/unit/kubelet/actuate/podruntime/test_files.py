"""Log directories, links and files shared with a pod."""

import os
import sys
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvFile
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.actuate.podruntime.start.pod_files import read_tail, write_hosts
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from tests.unit.kubelet.actuate.podruntime.build import pod_of
from tests.unit.kubelet.actuate.podruntime.world import World

REF = PodRef("ns", "web", PodUID("uid-1"))
ID = ContainerID("0123456789abcdef")


@pytest.fixture
def logs(tmp_path: Path) -> LogFiles:
    return LogFiles(
        PodRuntimeConfig(pod_logs_dir=str(tmp_path / "pods"), container_logs_dir=str(tmp_path / "containers"))
    )


def test_log_files_have_the_documented_layout(logs: LogFiles, tmp_path: Path) -> None:
    logs.make_pod_dir(REF)
    assert logs.prepare_container(REF, "app") == 0
    log = tmp_path / "pods" / "ns_web_uid-1" / "app" / "0.log"
    log.touch()
    logs.created(REF, "app", ID, "app/0.log", 0)
    link = tmp_path / "containers" / "web_ns_app-0123456789abcdef.log"
    assert link.readlink() == log
    logs.created(REF, "app", ID, "app/0.log", 0)
    assert logs.pod_dirs() == {tmp_path / "pods" / "ns_web_uid-1": "uid-1"}
    assert logs.links.dead() == {}
    assert logs.prepare_container(REF, "app") == 1
    log.unlink()
    assert logs.links.dead() == {link: ID}
    assert logs.links.dead({ID}) == {}


def test_log_of_unstarted_attempt_does_not_count_as_restart(logs: LogFiles, tmp_path: Path) -> None:
    logs.prepare_container(REF, "app")
    directory = next((tmp_path / "pods").glob("*/app"))
    (directory / "0.log").touch()
    logs.mark_unstarted(REF, "app", 0)
    assert logs.prepare_container(REF, "app") == 0
    assert (directory / "0.log").exists()
    logs.unmark(REF, [("app", 0), ("other", 0)])
    assert logs.prepare_container(REF, "app") == 1
    logs.mark_unstarted(REF, "app", 0)
    logs.remove_attempt(REF, "app", ID, 0)
    assert list(directory.iterdir()) == []


def test_missing_log_directories_are_no_error(logs: LogFiles) -> None:
    assert logs.pod_dirs() == {}
    assert logs.links.dead() == {}
    logs.remove_pod(REF)
    logs.mark_unstarted(REF, "app", 0)
    logs.remove_attempt(REF, "app", ID, 0)


def test_pod_dirs_ignores_other_entries(logs: LogFiles, tmp_path: Path) -> None:
    logs.make_pod_dir(REF)
    (tmp_path / "pods" / "lost+found").mkdir()
    (tmp_path / "pods" / "a_b_c").touch()
    (tmp_path / "pods" / "x_y_z").symlink_to("/etc")
    assert list(logs.pod_dirs().values()) == ["uid-1"]


def test_removing_a_pod_does_not_follow_links(logs: LogFiles, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    logs.prepare_container(REF, "app")
    (logs.pod_dir(REF) / "app" / "link").symlink_to(precious)
    (logs.pod_dir(REF) / "trap").symlink_to(precious)
    logs.remove_pod(REF)
    assert not logs.pod_dir(REF).exists()
    assert (precious / "file").exists()


def test_log_directory_deeper_than_recursion_is_removed(logs: LogFiles) -> None:
    """A pod with a writable hostPath may nest directories as deep as it likes."""
    logs.prepare_container(REF, "app")
    fd = os.open(logs.pod_dir(REF) / "app", os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 200):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    logs.remove_dir(logs.pod_dir(REF))
    assert not logs.pod_dir(REF).exists()


def test_log_directory_that_is_a_link_is_refused(logs: LogFiles, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "0.log").touch()
    logs.make_pod_dir(REF)
    (logs.pod_dir(REF) / "app").symlink_to(precious)
    for use in (
        lambda: logs.prepare_container(REF, "app"),
        lambda: logs.mark_unstarted(REF, "app", 0),
        lambda: logs.remove_attempt(REF, "app", ID, 0),
        lambda: logs.read_tail(REF, "app", 0, 10),
    ):
        with pytest.raises(NotADirectoryError):
            use()
    assert [path.name for path in precious.iterdir()] == ["0.log"]


def test_unstarted_mark_is_never_written_through_a_link(logs: LogFiles, tmp_path: Path) -> None:
    logs.prepare_container(REF, "app")
    (logs.pod_dir(REF) / "app" / "0.unstarted").symlink_to(tmp_path / "made")
    logs.mark_unstarted(REF, "app", 0)
    assert not (tmp_path / "made").exists()


def test_links_out_of_the_logs_are_not_followed(logs: LogFiles, tmp_path: Path) -> None:
    """Their target may be on a file system that is not responding; one with another name is not ours."""
    links = tmp_path / "containers"
    links.mkdir()
    (tmp_path / "there").touch()
    (links / "web_ns_app-0123456789abcdef.log").symlink_to(tmp_path / "there")
    (links / "mine.log").symlink_to(tmp_path / "absent")
    assert [link.name for link in logs.links.dead()] == ["web_ns_app-0123456789abcdef.log"]


def test_read_tail_returns_the_end_of_a_file_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert read_tail(tmp_path, "f", 4) == b"6789"
    assert read_tail(tmp_path, "f", 100) == b"0123456789"
    assert read_tail(tmp_path, "nothing", 4) is None
    with pytest.raises(Invalid):
        read_tail(tmp_path, "", 4)
    with pytest.raises(Invalid):
        read_tail(tmp_path, "..", 4)


def test_hosts_are_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "etc-hosts"
    write_hosts(path, b"long content\n")
    inode, mode = path.stat().st_ino, path.stat().st_mode & 0o777
    assert mode == 0o644
    write_hosts(path, b"short\n")
    assert path.read_bytes() == b"short\n"
    assert path.stat().st_ino == inode
    before = path.stat().st_mtime_ns
    write_hosts(path, b"short\n")
    assert path.stat().st_mtime_ns == before, "the same content is not written again"


def test_hosts_are_never_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "passwd"
    target.write_text("root")
    (tmp_path / "etc-hosts").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        write_hosts(tmp_path / "etc-hosts", b"x")
    assert target.read_text() == "root"


def mounts(world: World) -> dict[str, str]:
    return {m.container_path: m.host_path for m in world.cri.containers[-1].config.mounts}


async def test_the_hosts_file_of_a_pod(world: World) -> None:
    pod = pod_of(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["other"]}], hostname="me")
    await world.settle(pod)
    content = Path(mounts(world)["/etc/hosts"]).read_text()
    assert f"{world.cri.sandboxes[0].ip}\tme\n" in content
    assert "1.2.3.4\tother\n" in content


async def test_the_hosts_file_of_a_pod_on_the_hosts_network(world: World) -> None:
    await world.settle(pod_of(hostNetwork=True))
    assert "127.0.0.1 localhost\n" in Path(mounts(world)["/etc/hosts"]).read_text()


async def test_a_pod_with_a_hosts_file_of_its_own(world: World) -> None:
    mount = {"name": "v", "mountPath": "/etc/hosts"}
    volume = {"name": "v", "hostPath": {"path": "/x"}}
    await world.settle(pod_of(({"name": "app", "volumeMounts": [mount]},), volumes=[volume]))
    assert "/etc/hosts" not in mounts(world)


async def test_log_directory_that_cannot_be_created_fails_the_sandbox(world: World) -> None:
    Path(world.config.pod_logs_dir).touch()
    outcome = await world.sync(pod_of())
    assert [f.reason for f in outcome.failures] == ["CreatePodSandboxError"]
    assert Path(world.config.pod_logs_dir).name in outcome.failures[0].message


async def test_failed_log_link_does_not_fail_the_start(world: World, caplog: pytest.LogCaptureFixture) -> None:
    Path(world.config.container_logs_dir).touch()
    assert (await world.sync(pod_of())).ok
    assert world.running() == ["app"]
    assert "log link not created" in caplog.messages


async def test_environment_from_files_and_facts(world: World) -> None:
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "FILE", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}}},
    ]
    world.volumes.files[EnvFile("v", "p")] = "K='value'\n"
    await world.settle(pod_of(({"name": "app", "env": env, "command": ["x", "$(IP)"]},)))
    config = world.cri.containers[0].config
    ip = world.cri.sandboxes[0].ip
    assert {e.key: e.value.decode() for e in config.envs} == {
        "IP": ip,
        "NODE": "node",
        "HOST": "192.0.2.1",
        "FILE": "value",
    }
    assert list(config.command) == ["x", ip]
