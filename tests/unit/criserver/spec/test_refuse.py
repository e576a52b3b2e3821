"""What cannot be given is refused."""

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.criserver.spec.refuse import check_container
from pykubelet.pb import runtime_v1_pb2 as pb


def _with_context(context: pb.LinuxContainerSecurityContext) -> pb.ContainerConfig:
    return pb.ContainerConfig(linux=pb.LinuxContainerConfig(security_context=context))


APPARMOR = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="p")


@pytest.mark.parametrize(
    ("config", "feature"),
    [
        (pb.ContainerConfig(CDI_devices=[pb.CDIDevice(name="v/c=d")]), "CDI"),
        (_with_context(pb.LinuxContainerSecurityContext(apparmor=APPARMOR)), "AppArmor"),
    ],
)
def test_containers(config: pb.ContainerConfig, feature: str) -> None:
    with pytest.raises(Permanent, match=feature):
        check_container(config)


def test_the_node_s_user_namespace_and_the_default_profile_pass() -> None:
    options = pb.NamespaceOption(userns_options=pb.UserNamespace(mode=pb.NODE))
    check_container(_with_context(pb.LinuxContainerSecurityContext(namespace_options=options)))
    check_container(pb.ContainerConfig())
