"""Pods whose paths have thousands of components: they run, or an event names the field, and all of them is removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, container_status
from pykubelet.testing.deep_directories import depth_of, path_of, place_for_deep_ones
from tests.manifests import BUSYBOX, Apply, Json, config_map, container, mount, pod, secret

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]
_DEEP = path_of(1500)
"""More components than Python may recurse, and a path that the kernel takes in one call."""
_DEEPER = path_of(5000)
"""A path that no mount can have."""
_SECONDS = 60


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with place_for_deep_ones(tmp_path) as made:
        yield made


def _items(path: str) -> list[Json]:
    return [{"key": "k", "path": path}]


def _volumes(path: str) -> list[Json]:
    """Volumes of files that have this path in the volume."""
    named = {"path": path, "fieldRef": {"fieldPath": "metadata.namespace"}}
    return [
        {"name": "map", "configMap": {"name": "deep", "items": _items(path)}},
        {"name": "secret", "secret": {"secretName": "deep", "items": _items(path)}},
        {"name": "downward", "downwardAPI": {"items": [named]}},
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "deep", "items": _items(path)}}]}},
    ]


def test_paths_of_many_components_work(agent: AgentProcess, apply: Apply, place: Path) -> None:
    apply("objects", config_map("deep", {"k": "v"}), secret("deep", {"k": "v"}))
    volumes = [
        {"name": "untyped", "hostPath": {"path": f"{place}/untyped/{_DEEP}"}},
        {"name": "made", "hostPath": {"path": f"{place}/made/{_DEEP}", "type": "DirectoryOrCreate"}},
        {"name": "found", "hostPath": {"path": f"{place}/made/{_DEEP}", "type": "Directory"}},
        {"name": "scratch", "emptyDir": {}},
        *_volumes(_DEEP),
    ]
    shown = [mount(str(each["name"]), f"/{each['name']}") for each in volumes if each["name"] != "scratch"]
    main = container(
        volumeMounts=[*shown, mount("scratch", f"/scratch/{_DEEP}")],
        workingDir=f"/work/{_DEEP}",
        terminationMessagePath=f"/end/{_DEEP}",
    )
    first = container("first", ["true"], volumeMounts=[mount("made", "/made")])
    apply("works", pod("works", main, initContainers=[first], volumes=volumes))
    agent.wait_running("works", timeout=_SECONDS)
    assert [depth_of(place / name) for name in ("untyped", "made")] == [1500, 1500]
    files = " ".join(f"/{name}/{_DEEP}" for name in ("map", "secret", "downward", "all"))
    assert agent.exec("works", f"cat {files}") == "vvdefaultv"
    assert agent.exec("works", f"touch /found/x /scratch/{_DEEP}/y; ls /made /scratch/{_DEEP}; pwd").split()[1] == "x"


def _refused(place: Path) -> dict[str, tuple[list[Json], Json, str, str]]:
    """Volumes, fields of the container that mounts the volume ``v``, reason and text of the event, by field."""
    host, deeper = f"{place}/{_DEEPER}", f"/{_DEEPER}"
    files = {str(each["name"]): {**each, "name": "v"} for each in _volumes(_DEEPER)}
    scratch, at = [{"name": "v", "emptyDir": {}}], {"volumeMounts": [mount("v", "/v")]}
    return {
        "hostpath": ([{"name": "v", "hostPath": {"path": host}}], at, "FailedMount", "hostPath.path has"),
        "hostpath-directory": (
            [{"name": "v", "hostPath": {"path": host, "type": "DirectoryOrCreate"}}],
            at,
            "FailedMount",
            "hostPath.path has",
        ),
        "hostpath-file": (
            [{"name": "v", "hostPath": {"path": host, "type": "FileOrCreate"}}],
            at,
            "FailedMount",
            "hostPath.path has",
        ),
        "subpath": (scratch, {"volumeMounts": [mount("v", "/v", subPath=_DEEPER)]}, "Failed", "prepare subPath"),
        "subpathexpr": (
            scratch,
            {"volumeMounts": [mount("v", "/v", subPathExpr=_DEEPER)]},
            "Failed",
            "prepare subPath",
        ),
        "mountpath": (scratch, {"volumeMounts": [mount("v", deeper)]}, "Failed", "a mount path has 10000 bytes"),
        "workingdir": ([], {"workingDir": deeper}, "Failed", "the working directory has 10000 bytes"),
        "message": ([], {"terminationMessagePath": deeper}, "Failed", "a mount path has 10000 bytes"),
        "image": (
            [{"name": "v", "image": {"reference": BUSYBOX}}],
            {"volumeMounts": [mount("v", "/v", subPath=_DEEPER)]},
            "Failed",
            "its subPath",
        ),
        **{name: ([volume], at, "FailedMount", "invalid path") for name, volume in files.items()},
    }


def test_paths_that_cannot_be_mounted_are_refused_by_name_and_hold_up_no_other_pod(
    agent: AgentProcess, apply: Apply, place: Path
) -> None:
    apply("objects", config_map("deep", {"k": "v"}), secret("deep", {"k": "v"}))
    refused = _refused(place)
    for name, (volumes, fields, _, _) in refused.items():
        apply(name, pod(name, container(**fields), volumes=volumes))
    apply("bystander", pod("bystander"))
    agent.wait_running("bystander", timeout=_SECONDS)
    for name, (_, _, reason, text) in refused.items():
        event = agent.wait_event(name, reason, text, timeout=_SECONDS)
        assert len(event.message) < 1024
    assert all(container_status(agent.pod(name)).restart_count == 0 for name in refused)
    assert list(place.iterdir()) == []
    agent.remove_all_pods(timeout=_SECONDS)
    assert "RecursionError" not in agent.log.read_text()
