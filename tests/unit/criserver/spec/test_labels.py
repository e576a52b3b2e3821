"""AppArmor profiles and SELinux labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.spec import build_container
from pykubelet.criserver.spec.labels import apparmor_profile, check_loaded, selinux_labels
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, given

Context = pb.LinuxContainerSecurityContext
WITH_BOTH = replace(HOST, apparmor=True, selinux=True)


def _local(name: str) -> pb.SecurityProfile:
    return pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=name)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (Context(), ""),
        (Context(apparmor=_local("p")), "p"),
        (Context(apparmor=_local("localhost/p")), "p"),
        (Context(apparmor=_local("p"), privileged=True), ""),
        (Context(apparmor=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)), ""),
        (Context(apparmor_profile="localhost/old"), "old"),
        (Context(apparmor_profile="runtime/default"), ""),
        (Context(apparmor=_local("new"), apparmor_profile="localhost/old"), "new"),
    ],
)
def test_profiles(context: pb.LinuxContainerSecurityContext, expected: str) -> None:
    assert apparmor_profile(context, WITH_BOTH) == expected


def test_profiles_that_are_refused() -> None:
    with pytest.raises(Permanent, match="has no AppArmor"):
        apparmor_profile(Context(apparmor=_local("p")), HOST)
    with pytest.raises(Invalid, match="needs a name"):
        apparmor_profile(Context(apparmor=_local("")), WITH_BOTH)
    check_loaded("my profile", "docker-default (enforce)\nmy profile (complain)\n")
    with pytest.raises(Permanent, match="not loaded"):
        check_loaded("my", "my profile (enforce)\n")


def test_labels() -> None:
    context = Context(selinux_options=pb.SELinuxOption(type="spc_t", level="s0:c1,c2"))
    labels = ("system_u:system_r:spc_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c1,c2")
    assert selinux_labels(context, WITH_BOTH) == labels
    assert selinux_labels(context, HOST) == ("", "")
    assert selinux_labels(Context(), WITH_BOTH) == ("", "")
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    config.linux.security_context.CopyFrom(context)
    config.linux.security_context.apparmor.CopyFrom(_local("p"))
    spec = build_container(given(config, host=WITH_BOTH))
    process, linux = cast(Mapping[str, object], spec["process"]), cast(Mapping[str, object], spec["linux"])
    assert (process["selinuxLabel"], linux["mountLabel"]) == labels
    assert process["apparmorProfile"] == "p"
