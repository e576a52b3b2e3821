"""SELinux levels of pods, and labels of their processes and files."""

from collections.abc import Mapping
from typing import TypeAlias, cast

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Transient
from pykubelet.criserver.spec import build_container
from pykubelet.criserver.spec.mounts import paths_to_relabel
from pykubelet.criserver.spec.security import labels
from pykubelet.criserver.spec.security.labels import LEVELS, choose_level, file_label, level_of, process_label
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, given

Context: TypeAlias = pb.LinuxContainerSecurityContext
Options: TypeAlias = pb.SELinuxOption
CONFINING = replace(
    HOST, selinux=True, selinux_process="su:sr:container_t:s0", selinux_files="su:object_r:container_file_t:s0"
)
LEVEL = "s0:c1,c2"


@forall(st.integers(0, LEVELS - 1), st.integers(0, LEVELS - 1))
def test_different_numbers_have_different_pairs_of_categories(first: int, second: int) -> None:
    assert (level_of(first) == level_of(second)) == (first == second)
    low, high = (int(part[1:]) for part in level_of(first).removeprefix("s0:").split(","))
    assert 0 <= low < high <= 1023


def test_levels_are_numbered_from_the_first_to_the_last_pair() -> None:
    assert (level_of(0), level_of(1022), level_of(1023), level_of(LEVELS - 1)) == (
        "s0:c0,c1",
        "s0:c0,c1023",
        "s0:c1,c2",
        "s0:c1022,c1023",
    )


def test_new_pod_gets_a_level_that_no_other_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "LEVELS", 3)
    used: set[str] = set()
    for _ in range(3):
        level = choose_level(Options(), CONFINING, seed=2, used=used)
        assert level not in used
        used.add(level)
    with pytest.raises(Transient, match="all 3 SELinux levels are in use"):
        choose_level(Options(), CONFINING, seed=2, used=used)


def test_requested_level_is_kept_though_another_pod_has_it() -> None:
    assert choose_level(Options(level=LEVEL), CONFINING, seed=0, used={LEVEL}) == LEVEL
    assert choose_level(Options(level=LEVEL), HOST, seed=0, used=()) == ""


@pytest.mark.parametrize("level", ['s0",x', "s0 c1", "s0:c1\n"])
def test_level_that_would_change_mount_options_is_rejected(level: str) -> None:
    with pytest.raises(Invalid, match="SELinux level"):
        choose_level(Options(level=level), CONFINING, seed=0, used=())
    with pytest.raises(Invalid, match="SELinux level"):
        file_label(Context(selinux_options=Options(level=level)), CONFINING, LEVEL)


@pytest.mark.parametrize(
    ("context", "process", "files"),
    [
        (Context(), "su:sr:container_t:s0:c1,c2", "su:object_r:container_file_t:s0:c1,c2"),
        (
            Context(selinux_options=Options(type="spc_t", role="r", user="u", level="s0:c5")),
            "u:r:spc_t:s0:c5",
            "u:object_r:container_file_t:s0:c5",
        ),
        (Context(privileged=True), "", "su:object_r:container_file_t:s0:c1,c2"),
    ],
)
def test_labels_of_a_container_follow_context_and_level(context: Context, process: str, files: str) -> None:
    assert (process_label(context, CONFINING, LEVEL), file_label(context, CONFINING, LEVEL)) == (process, files)
    assert (process_label(context, HOST, LEVEL), file_label(context, HOST, LEVEL)) == ("", "")
    made = given(host=CONFINING)
    made.config.linux.security_context.CopyFrom(context)
    spec = build_container(replace(made, sandbox=replace(made.sandbox, selinux_level=LEVEL)))
    found, linux = cast(Mapping[str, object], spec["process"]), cast(Mapping[str, object], spec["linux"])
    assert (found.get("selinuxLabel", ""), linux["mountLabel"]) == (process, files)


def test_pod_of_an_earlier_server_has_the_level_of_the_policy() -> None:
    assert process_label(Context(), CONFINING, "") == "su:sr:container_t:s0"


def test_marked_mounts_files_of_the_sandbox_and_volumes_are_relabelled() -> None:
    made = given()
    for path, marked in (("/a", True), ("/b", False)):
        made.config.mounts.add(container_path=path, host_path=f"/host{path}", selinux_relabel=marked)
    made.config.mounts.add(container_path="/i", selinux_relabel=True, image=pb.ImageSpec(image="x"))
    sandbox = made.sandbox
    found = paths_to_relabel(made.config, sandbox, {"/v": "/volumes/1"})
    own = [sandbox.resolv_conf, sandbox.hosts, sandbox.hostname_file, sandbox.shm]
    assert found == ["/host/a", *own, "/volumes/1"]
    node = replace(sandbox, namespaces={})
    assert sandbox.shm not in paths_to_relabel(made.config, node, {})
