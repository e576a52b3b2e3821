"""Arguments, environment and capabilities of the first process."""

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec import ImageDefaults, build_exec
from pykubelet.criserver.spec.process import arguments, build_process, environment, merged
from pykubelet.criserver.spec.security.capabilities import ALL, DEFAULT, capability_set, names_of
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, given

IMAGE = ImageDefaults(entrypoint=("/entry",), cmd=("default",))
EVERY = frozenset(f"CAP_{name}" for name in ALL)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ([], [], ["/entry", "default"]),
        ([], ["x"], ["/entry", "x"]),
        (["/cmd"], [], ["/cmd"]),
        (["/cmd"], ["x"], ["/cmd", "x"]),
    ],
)
def test_request_replaces_entrypoint_and_cmd_of_the_image(
    command: list[str], args: list[str], expected: list[str]
) -> None:
    assert arguments(pb.ContainerConfig(command=command, args=args), IMAGE) == expected


def test_missing_command_is_invalid() -> None:
    with pytest.raises(Invalid, match="neither the request nor the image"):
        arguments(pb.ContainerConfig(), ImageDefaults())


def test_later_variables_win_and_keep_their_place() -> None:
    assert merged(["A=1", "B=2", "A=3", "=x"]) == ["A=3", "B=2"]


def test_environment_of_the_request_overrides_the_image() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="A", value=b"request"), pb.KeyValue(key="N", value=b"\xff")])
    found = environment(config, ImageDefaults(env=("A=image", "PATH=/bin")), "web")
    assert found == ["PATH=/bin", "HOSTNAME=web", "A=request", "N=\udcff"]


def test_terminal_gets_the_term_variable() -> None:
    assert "TERM=xterm" in environment(pb.ContainerConfig(tty=True), ImageDefaults(), "web")


def test_process_of_a_plain_container() -> None:
    process = build_process(given())
    assert process["args"] == ["/bin/app", "serve"]
    assert process["user"] == {"uid": 1000, "gid": 1000, "additionalGids": [1000]}
    assert process["cwd"] == "/srv"
    assert "HOME=/home/app" in process["env"]  # type: ignore[operator]  # a list
    assert process["noNewPrivileges"] is False


def test_the_working_directory_must_be_absolute() -> None:
    with pytest.raises(Invalid, match="not absolute"):
        build_process(given(pb.ContainerConfig(working_dir="srv")))


@pytest.mark.parametrize(
    "path",
    ["/proc/self/fd/7", "//proc/1/fd", "/x/../proc/thread-self/fd/8/etc", "/proc/9/task/9/root", "/proc/1/cwd"],
)
def test_working_directory_through_a_process_is_invalid(path: str) -> None:
    """CVE-2024-21626."""
    with pytest.raises(Invalid, match="leads into a process"):
        build_process(given(pb.ContainerConfig(working_dir=path)))


@pytest.mark.parametrize("path", ["/proc", "/proc/sys/net", "/srv/proc/1/fd"])
def test_other_working_directories_are_valid(path: str) -> None:
    assert build_process(given(pb.ContainerConfig(working_dir=path)))["cwd"] == path


@pytest.mark.parametrize(("asked", "least", "expected"), [(-997, -1000, -997), (-997, 0, 0), (500, 0, 500)])
def test_oom_score_below_the_lowest_possible_is_raised(asked: int, least: int, expected: int) -> None:
    config = pb.ContainerConfig()
    config.linux.resources.oom_score_adj = asked
    assert build_process(given(config, host=replace(HOST, least_oom_score=least)))["oomScoreAdj"] == expected


@pytest.mark.parametrize(("own", "expected"), [(-999, 1), (0, 0), (10, 0)])
def test_oom_score_zero_is_not_left_to_inheritance_from_a_protected_server(own: int, expected: int) -> None:
    """crun before 1.9 takes 0 for a score that is not given, and the container would inherit the server's."""
    assert build_process(given(host=replace(HOST, oom_score=own)))["oomScoreAdj"] == expected


def _bounding(capability: pb.Capability, available: frozenset[str] = EVERY) -> set[str]:
    found = capability_set(capability, False, available)
    assert "inheritable" not in found
    assert found["bounding"] == found["effective"] == found["permitted"]
    names = found["bounding"]
    assert isinstance(names, list)
    return {name.removeprefix("CAP_") for name in names}


def test_container_without_capabilities_of_its_own_has_the_default() -> None:
    assert _bounding(pb.Capability()) == set(DEFAULT)


@pytest.mark.parametrize(
    ("added", "dropped", "expected"),
    [
        (["NET_ADMIN"], [], {*DEFAULT, "NET_ADMIN"}),
        (["cap_net_admin"], ["KILL"], {*DEFAULT, "NET_ADMIN"} - {"KILL"}),
        ([], ["ALL"], set()),
        (["KILL"], ["ALL"], {"KILL"}),
        (["ALL"], ["KILL"], {*ALL} - {"KILL"}),
    ],
)
def test_added_and_dropped_capabilities(added: list[str], dropped: list[str], expected: set[str]) -> None:
    assert _bounding(pb.Capability(add_capabilities=added, drop_capabilities=dropped)) == expected


def test_unavailable_capabilities_are_not_granted() -> None:
    assert _bounding(pb.Capability(add_capabilities=["ALL"]), frozenset({"CAP_KILL"})) == {"KILL"}
    assert capability_set(pb.Capability(), True, frozenset({"CAP_KILL"}))["bounding"] == ["CAP_KILL"]


def test_an_unknown_capability_is_named() -> None:
    with pytest.raises(Invalid, match="FLY"):
        capability_set(pb.Capability(add_capabilities=["FLY"]), False, EVERY)


def test_ambient_capabilities_are_inheritable_too() -> None:
    found = capability_set(pb.Capability(add_ambient_capabilities=["KILL"]), False, EVERY)
    assert found["ambient"] == found["inheritable"] == ["CAP_KILL"]


def test_capability_names_of_a_bit_mask() -> None:
    assert names_of(0b100001) == {"CAP_CHOWN", "CAP_KILL"}


def test_exec_keeps_user_and_capabilities() -> None:
    spec = {"process": {"args": ["a"], "user": {"uid": 1}, "env": ["A=1"], "terminal": False}}
    assert build_exec(spec, ["b"]) == {"args": ["b"], "user": {"uid": 1}, "env": ["A=1"], "terminal": False}
    assert build_exec(spec, ["b"], terminal=True)["env"] == ["A=1", "TERM=xterm"]
    with pytest.raises(Invalid):
        build_exec(spec, [])
