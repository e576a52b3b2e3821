"""AppArmor: selection of a profile, and the rules of the default profile."""

import re
from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.criserver.spec import Host, build_container
from pykubelet.criserver.spec.security.apparmor import DEFAULT_PROFILE, apparmor_profile, default_profile, is_loaded
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, given

Context = pb.LinuxContainerSecurityContext
CONFINING = replace(HOST, apparmor=True, apparmor_parser=True)
NO_PARSER = replace(HOST, apparmor=True)
BY_DEFAULT = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)
UNCONFINED = pb.SecurityProfile(profile_type=pb.SecurityProfile.Unconfined)


def _local(name: str) -> pb.SecurityProfile:
    return pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=name)


@pytest.mark.parametrize(
    ("context", "host", "expected"),
    [
        (Context(), CONFINING, DEFAULT_PROFILE),
        (Context(), NO_PARSER, ""),
        (Context(), HOST, ""),
        (Context(apparmor=BY_DEFAULT), CONFINING, DEFAULT_PROFILE),
        (Context(apparmor=BY_DEFAULT), HOST, ""),
        (Context(apparmor_profile="runtime/default"), CONFINING, DEFAULT_PROFILE),
        (Context(apparmor=UNCONFINED), CONFINING, ""),
        (Context(apparmor_profile="unconfined"), CONFINING, ""),
        (Context(apparmor=UNCONFINED, apparmor_profile="localhost/old"), CONFINING, ""),
        (Context(apparmor=_local("p")), NO_PARSER, "p"),
        (Context(apparmor=_local("localhost/p")), CONFINING, "p"),
        (Context(apparmor_profile="localhost/old"), CONFINING, "old"),
        (Context(apparmor_profile="localhost/my/own"), CONFINING, "my/own"),
        (Context(apparmor=_local("new"), apparmor_profile="localhost/old"), CONFINING, "new"),
        (Context(apparmor=_local("p"), privileged=True), CONFINING, ""),
        (Context(privileged=True), CONFINING, ""),
    ],
)
def test_profile_is_chosen_by_request_and_host(
    context: pb.LinuxContainerSecurityContext, host: Host, expected: str
) -> None:
    assert apparmor_profile(context, host) == expected


@pytest.mark.parametrize(
    ("context", "host", "kind", "message"),
    [
        (Context(apparmor=_local("p")), HOST, Permanent, "has no AppArmor"),
        (Context(apparmor=_local("")), CONFINING, Invalid, "needs a name"),
        (Context(apparmor_profile="localhost/"), CONFINING, Invalid, "needs a name"),
        (Context(apparmor_profile="docker-default"), CONFINING, Invalid, "write localhost/NAME"),
        (Context(apparmor=BY_DEFAULT), NO_PARSER, Permanent, "apt-get install apparmor"),
    ],
)
def test_invalid_profiles_are_rejected(
    context: pb.LinuxContainerSecurityContext, host: Host, kind: type[PykubeletError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        apparmor_profile(context, host)


def test_the_list_of_loaded_profiles() -> None:
    listed = "docker-default (enforce)\nmy profile (complain)\n"
    assert is_loaded("my profile", listed)
    assert not is_loaded("my", listed)
    assert not is_loaded("my profile (complain)", listed)


def test_the_profile_is_in_the_spec() -> None:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    process = cast(Mapping[str, object], build_container(given(config, host=CONFINING))["process"])
    assert process["apparmorProfile"] == DEFAULT_PROFILE
    assert "apparmorProfile" not in cast(Mapping[str, object], build_container(given(config))["process"])


def _pattern(glob: str) -> str:
    """A regular expression of an AppArmor path."""
    if glob[:1] == "{":
        end = glob.index("}")
        return f"({'|'.join(map(_pattern, glob[1:end].split(',')))})" + _pattern(glob[end + 1 :])
    if glob[:1] == "[":
        end = glob.index("]") + 1
        return glob[:end] + _pattern(glob[end:])
    for sign, meaning in (("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
        if glob.startswith(sign):
            return meaning + _pattern(glob[len(sign) :])
    return re.escape(glob[0]) + _pattern(glob[1:]) if glob else ""


def _denies_writing(path: str) -> bool:
    rules = re.findall(r"deny (/\S+) (\w+),", default_profile())
    return any(re.fullmatch(_pattern(glob), path) for glob, rights in rules if "w" in rights)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/uptime",
        "/proc/sysrq-trigger",
        "/proc/kcore",
        "/proc/bus/pci/00",
        "/proc/s/x",
        "/proc/scsi/scsi",
        "/proc/sy/x",
        "/proc/sysvipc/shm",
        "/proc/sys/vm/swappiness",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/kernel/sem",
        "/proc/sys/kernel/hostname",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/fs/bpf/x",
        "/sys/fs/cgXroup/x",
        "/sys/firmware/efi",
        "/sys/kernel/security/apparmor/.load",
    ],
)
def test_the_default_profile_denies(path: str) -> None:
    assert _denies_writing(path)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/1/attr/exec",
        "/proc/12345/oom_score_adj",
        "/proc/1/task/2/comm",
        "/proc/sys/kernel/shmmax",
        "/sys/fs/cgroup/cgroup.procs",
        "/tmp/x",
        "/data/proc/uptime",
        "/etc/passwd",
        "/dev/null",
    ],
)
def test_the_default_profile_allows(path: str) -> None:
    assert not _denies_writing(path)
