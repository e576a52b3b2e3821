"""Volumes as the containers of running pods see them."""

import stat
import subprocess
import time
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, waiting_reason
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Apply, Json, config_map, container, mount, pod, secret, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]


def _volume(name: str, **source: object) -> Json:
    return {"name": name, **source}


def test_empty_dirs_are_shared_by_containers_on_disk_and_in_memory(agent: AgentProcess, apply: Apply) -> None:
    volumes = [
        _volume("disk", emptyDir={}),
        _volume("memory", emptyDir={"medium": "Memory", "sizeLimit": "4Mi"}),
    ]
    both = [mount("disk", "/disk"), mount("memory", "/memory")]
    writer = container("writer", serving("echo shared >/disk/file; echo quick >/memory/file"), volumeMounts=both)
    reader = container("reader", volumeMounts=[mount("disk", "/d", readOnly=True), mount("memory", "/m")])
    apply("empty", pod("empty", writer, reader, volumes=volumes))
    seen = agent.wait_running("empty")[0]
    assert agent.exec("empty", "cat /d/file /m/file", "reader").split() == ["shared", "quick"]
    assert agent.exec("empty", "touch /d/x 2>&1 || echo refused", "reader").strip().endswith("refused")
    assert "tmpfs" in agent.exec("empty", "grep ' /memory ' /proc/mounts", "writer")
    full = agent.exec(
        "empty", "dd if=/dev/zero of=/memory/big bs=1M count=8 2>&1 || true; wc -c </memory/big", "writer"
    )
    assert int(full.split()[-1]) <= 4 << 20
    # Files of a container outlive it.
    agent.end_container("empty", "writer")
    agent.wait_pod("empty", lambda p: container_status(p, "writer").restart_count == 1)
    directory = agent.root / "pods" / seen.metadata.uid / "volumes" / "kubernetes.io~empty-dir" / "disk"
    assert (directory / "file").read_text() == "shared\n"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o777


def test_later_mounts_propagate_to_container_with_host_to_container(agent: AgentProcess, apply: Apply) -> None:
    """Also on a node with private mounts, because the agent makes its root directory a shared mount."""
    asks = mount("data", "/data", mountPropagation="HostToContainer")
    main, other = container("main", volumeMounts=[asks]), container("other", volumeMounts=[mount("data", "/data")])
    apply("spread", pod("spread", main, other, volumes=[_volume("data", emptyDir={})]))
    (seen,) = agent.wait_running("spread")
    later = agent.root / "pods" / seen.metadata.uid / "volumes" / "kubernetes.io~empty-dir" / "data" / "later"
    later.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(later)], check=True)
    try:
        (later / "word").write_text("mounted")
        assert agent.exec("spread", "cat /data/later/word", "main") == "mounted"
        assert agent.exec("spread", "ls /data/later", "other") == ""
    finally:
        subprocess.run(["umount", str(later)], check=True)


def test_host_paths_of_the_wrong_type_keep_the_pod_pending(agent: AgentProcess, apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("of the host")

    def host(name: str, kind: str, path: Path | None = None) -> Json:
        return _volume(name, hostPath={"path": str(path or tmp_path / name), "type": kind})

    good = [
        host("dir", "Directory"),
        host("file", "File"),
        host("made", "DirectoryOrCreate"),
        host("touched", "FileOrCreate"),
        host("null", "CharDevice", Path("/dev/null")),
        host("any", "", tmp_path),
    ]
    mounts = [mount(each["name"], f"/m/{each['name']}") for each in good]
    wrong = [
        pod(f"wrong-{kind.lower()}", container(volumeMounts=[mount("v", "/v")]), volumes=[host("v", kind, path)])
        for kind, path in (
            ("Directory", tmp_path / "file"),
            ("File", tmp_path / "absent"),
            ("Socket", tmp_path / "file"),
            ("BlockDevice", Path("/dev/null")),
        )
    ]
    apply("host", pod("host", container(volumeMounts=mounts), volumes=good), *wrong)
    agent.wait_running("host")
    assert agent.exec("host", "cat /m/file /m/any/file") == "of the host" * 2
    agent.exec("host", "echo written >/m/made/x; echo more >/m/touched; echo gone >/m/null")
    assert (tmp_path / "made" / "x").read_text() == "written\n"
    assert (tmp_path / "touched").read_text() == "more\n"
    for name in ("wrong-directory", "wrong-file", "wrong-socket", "wrong-blockdevice"):
        agent.wait_event(name, "FailedMount", "hostPath type check failed")
        seen = agent.pod(name)
        assert (seen.status.phase, waiting_reason(seen)) == ("Pending", "ContainerCreating")


def test_config_maps_secrets_and_fields_are_files_in_volumes(agent: AgentProcess, apply: Apply) -> None:
    items = {"items": [{"key": "a", "path": "sub/alpha", "mode": 0o440}]}
    fields = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}},
    ]
    volumes = [
        _volume("map", configMap={"name": "vol-map", "defaultMode": 0o600}),
        _volume("some", configMap={"name": "vol-map", **items}),
        _volume("secret", secret={"secretName": "vol-secret"}),
        _volume("down", downwardAPI={"items": fields}),
        _volume("none", configMap={"name": "absent", "optional": True}),
        _volume(
            "mixed",
            projected={
                "sources": [
                    {"configMap": {"name": "vol-map", "items": [{"key": "b", "path": "b"}]}},
                    {"secret": {"name": "vol-secret"}},
                    {"downwardAPI": {"items": fields[:1]}},
                ]
            },
        ),
    ]
    mounts = [mount(each["name"], f"/v/{each['name']}") for each in volumes]
    apply(
        "config",
        config_map("vol-map", {"a": "one", "b": "two"}, binaryData={"bin": "AAEC"}),
        secret("vol-secret", {"key": "hidden"}),
        pod(
            "config",
            container(volumeMounts=mounts, resources={"limits": {"cpu": "100m"}}),
            volumes=volumes,
            metadata={"labels": {"app": "x"}},
        ),
    )
    agent.wait_running("config")
    assert agent.exec("config", "cd /v/map; cat a b; wc -c <bin; stat -Lc %a a").split() == ["onetwo3", "600"]
    assert agent.exec("config", "cd /v/some; ls; cat sub/alpha; stat -Lc %a sub/alpha").split() == ["sub", "one440"]
    assert agent.exec("config", "cat /v/secret/key; ls /v/none") == "hidden"
    assert agent.exec("config", "cat /v/down/name; echo; cat /v/down/labels; echo; cat /v/down/cpu").split() == [
        "config-testnode",
        'app="x"',
        "100",
    ]
    assert agent.exec("config", "cd /v/mixed; cat b key name") == "twohiddenconfig-testnode"
    assert agent.exec("config", "touch /v/map/x 2>&1 || echo refused").strip().endswith("refused")
    assert "tmpfs" in agent.exec("config", "grep ' /v/secret ' /proc/mounts")


def test_config_map_update_is_visible_within_two_seconds(agent: AgentProcess, apply: Apply) -> None:
    volumes = [_volume("map", configMap={"name": "live-map"})]
    env = [{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "live-map", "key": "key"}}}]
    manifest = pod(
        "live",
        container(volumeMounts=[mount("map", "/map"), mount("map", "/fixed", subPath="key")], env=env),
        volumes=volumes,
    )
    apply("live-pod", manifest)
    apply("live-map", config_map("live-map", {"key": "old", "extra": "x"}))
    before = agent.wait_running("live")[0]
    apply("live-map", config_map("live-map", {"key": "new"}))
    start = time.monotonic()
    while agent.exec("live", "cat /map/key") != "new":
        assert time.monotonic() - start < 2 * PATIENCE, "the volume was not updated"
    assert agent.exec("live", "cat /fixed; ls /map; echo $KEY") == "oldkey\nold\n"
    after = agent.pod("live")
    assert after.metadata.uid == before.metadata.uid
    assert container_status(after).restart_count == 0
    agent.end_container("live")
    agent.wait_pod("live", lambda p: container_status(p).restart_count == 1 and container_status(p).ready)
    assert agent.exec("live", "cat /fixed; echo $KEY") == "newnew\n"


def test_pod_waits_for_missing_config_map(agent: AgentProcess, apply: Apply) -> None:
    by_volume = pod(
        "await", container(volumeMounts=[mount("map", "/map")]), volumes=[_volume("map", configMap={"name": "late"})]
    )
    env = [{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "key"}}}]
    apply("await", by_volume, pod("await-env", container(env=env)))
    agent.wait_event("await", "FailedMount", "late")
    agent.wait_pod("await-env", lambda p: waiting_reason(p) == "CreateContainerConfigError")
    apply("late", config_map("late", {"key": "came"}))
    agent.wait_running("await", "await-env", timeout=5)
    assert agent.exec("await", "cat /map/key") == "came"


def test_variables_of_a_file_that_another_container_writes_delay_no_other_pod(
    agent: AgentProcess, apply: Apply
) -> None:
    """Each of thousands of variables may be looked for to the end of the file, which may be 64 KiB long."""
    volumes, mounts = [_volume("data", emptyDir={})], [mount("data", "/data")]
    line = "A=''"
    write = container("write", sh(f'yes "{line}" | head -n 13000 >/data/file'), volumeMounts=mounts)
    keys = [{"volumeName": "data", "path": "file", "key": f"K{number}", "optional": True} for number in range(2000)]
    env = [{"name": key["key"], "valueFrom": {"fileKeyRef": key}} for key in keys]
    apply("env-file", pod("env-file", container(env=env), initContainers=[write], volumes=volumes))
    assert agent.slowest_answer("env-file") < 5 * PATIENCE


def test_annotations_that_hundreds_of_files_have_delay_no_other_pod(agent: AgentProcess, apply: Apply) -> None:
    items = [{"path": f"f{number}", "fieldRef": {"fieldPath": "metadata.annotations"}} for number in range(120)]
    volumes, notes = [_volume("facts", downwardAPI={"items": items})], {"a": "\n" * 250_000}
    described = container(volumeMounts=[mount("facts", "/facts")])
    apply("facts", pod("facts", described, metadata={"annotations": notes}, volumes=volumes))
    assert agent.slowest_answer("facts") < 5 * PATIENCE


def test_sub_paths_mount_directories_and_files_of_a_volume(agent: AgentProcess, apply: Apply) -> None:
    first = container("first", sh("mkdir -p /all/a/b; echo deep >/all/a/b/file"), volumeMounts=[mount("disk", "/all")])
    env = [
        {"name": "NAME", "value": "made"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    mounts = [
        mount("disk", "/directory", subPath="a/b"),
        mount("disk", "/file", subPath="a/b/file", readOnly=True),
        mount("disk", "/new", subPathExpr="$(NAME)/$(POD)"),
        mount("disk", "/all"),
    ]
    main = container(env=env, volumeMounts=mounts)
    apply("sub", pod("sub", main, initContainers=[first], volumes=[_volume("disk", emptyDir={})]))
    agent.wait_running("sub")
    assert agent.exec("sub", "cat /directory/file /file") == "deep\ndeep\n"
    assert agent.exec("sub", "echo x >/new/x; cat /all/made/sub-testnode/x") == "x\n"
    assert agent.exec("sub", "(echo x >/file) 2>&1 || echo refused").strip().endswith("refused")


def test_sub_paths_never_leave_the_volume(agent: AgentProcess, apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    links = f"ln -s {tmp_path} /all/absolute; ln -s ../../../../../../../..{tmp_path} /all/relative"
    first = container("first", sh(links), volumeMounts=[mount("disk", "/all")])
    attacks = {"absolute": "absolute", "relative": "relative", "below": "absolute/secret"}
    mains = [container(name, volumeMounts=[mount("disk", "/got", subPath=path)]) for name, path in attacks.items()]
    apply("attack", pod("attack", *mains, initContainers=[first], volumes=[_volume("disk", emptyDir={})]))
    seen = agent.wait_pod("attack", lambda p: all(_settled(p, name) for name in attacks))
    for name in attacks:
        if waiting_reason(seen, name) == "CreateContainerConfigError":
            continue
        # Links are followed only inside the volume: they never lead to files of the host.
        inside = agent.exec("attack", "cat /got/* /got 2>/dev/null || true; touch /got/trace", name)
        assert "of the host" not in inside, f"subPath {attacks[name]} led out of the volume"
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def _settled(seen: Pod, name: str) -> bool:
    state = container_status(seen, name).state
    return bool(state and (state.running or waiting_reason(seen, name) == "CreateContainerConfigError"))


def test_fs_group_owns_the_files_of_volumes(agent: AgentProcess, apply: Apply) -> None:
    context = {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000}
    volumes = [
        _volume("disk", emptyDir={}),
        _volume("secret", secret={"secretName": "fs-secret", "defaultMode": 0o400}),
    ]
    mounts = [mount("disk", "/disk"), mount("secret", "/secret")]
    apply(
        "fsgroup",
        secret("fs-secret", {"key": "hidden"}),
        pod("fsgroup", container(volumeMounts=mounts), volumes=volumes, securityContext=context),
    )
    agent.wait_running("fsgroup")
    assert agent.exec("fsgroup", "stat -c %g /disk; touch /disk/x; stat -c '%u %g' /disk/x").split("\n")[:2] == [
        "2000",
        "1000 2000",
    ]
    assert agent.exec("fsgroup", "cat /secret/key; stat -Lc %g:%a /secret/key") == "hidden2000:440\n"
