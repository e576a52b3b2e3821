"""The parts of ``podman kube play`` against ``apply`` that need neither."""

import asyncio
import base64
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import played, podman
from benchmarks.figures import Figure
from benchmarks.manifests import talking, talking_with_volumes, with_volumes
from benchmarks.plan import QUICK
from benchmarks.through_api import Output
from benchmarks.usage import children_of


def test_missing_podman_is_a_remark_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    figures: list[Figure] = []
    out = Output(figures, [], lambda _: None)
    made = SimpleNamespace(podman=podman.Podman(tmp_path / "home"))
    asyncio.run(played.played(made, QUICK, out))  # type: ignore[arg-type]
    assert figures == []
    (remark,) = out.remarks
    assert remark.startswith("podman kube play was not measured: it needs podman; install it with: apt-get install")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("line", "nanoseconds"),
    [
        ("2026-11-26T11:08:57.043154342+00:00 stdout F here", 1795691337_043154000),
        ("2026-11-26T11:08:57.5Z stdout F here", 1795691337_500000000),
        ("2026-11-26T13:08:57.043154342+02:00 stdout P x", 1795691337_043154000),
    ],
)
def test_time_of_a_line_is_read_in_microseconds(line: str, nanoseconds: int) -> None:
    assert played.line_time(line) == nanoseconds


def test_pods_of_both_programs_print_a_line_after_they_heed_sigterm() -> None:
    (pod,) = talking("a")
    script = pod["spec"]["containers"][0]["command"][-1]
    assert script.index("trap") < script.index("echo")


def test_volumes_are_those_of_the_other_figures_in_a_form_that_podman_takes() -> None:
    config, secret, pod = talking_with_volumes("a")
    plain_config, plain_secret, plain_pod = with_volumes("a")
    assert config == plain_config
    decoded = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert decoded == plain_secret["stringData"] and "stringData" not in secret
    assert [volume.keys() for volume in pod["spec"]["volumes"]] == [
        each.keys() for each in plain_pod["spec"]["volumes"]
    ]
    assert pod["spec"]["volumes"][1]["secret"]["optional"] is False


def test_command_uses_the_namespace_and_the_storage_of_the_benchmark(tmp_path: Path) -> None:
    words = podman.Podman(tmp_path).command("kube", "play", "x.yaml")
    assert words[:2] == ["nsenter", "--net=/run/netns/pkbench-podman"] and words[-3:] == ["kube", "play", "x.yaml"]
    assert words[words.index("--root") + 1] == str(tmp_path / "root")


def test_removal_takes_the_empty_cgroups_of_podman_and_leaves_those_of_other_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podman, "_CGROUPS", tmp_path)
    for name in ("memory/libpod_parent/conmon", "pids/libpod_parent/conmon", "pids/libpod_parent/pod", "libpod_parent"):
        (tmp_path / name).mkdir(parents=True)
    podman.Podman(tmp_path / "home").destroy()
    left = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))
    assert left == ["memory", "pids", "pids/libpod_parent", "pids/libpod_parent/pod"]


def test_children_of_a_process_are_found() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert child.pid in children_of([os.getpid()])
            assert children_of([child.pid]) == []
        finally:
            child.kill()
