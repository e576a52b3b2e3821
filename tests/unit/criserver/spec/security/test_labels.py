"""SELinux labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pykubelet.criserver.spec import build_container
from pykubelet.criserver.spec.security.labels import selinux_labels
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, given

Context = pb.LinuxContainerSecurityContext
CONFINING = replace(HOST, selinux=True)


def test_labels() -> None:
    context = Context(selinux_options=pb.SELinuxOption(type="spc_t", level="s0:c1,c2"))
    labels = ("system_u:system_r:spc_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c1,c2")
    assert selinux_labels(context, CONFINING) == labels
    assert selinux_labels(context, HOST) == ("", "")
    assert selinux_labels(Context(), CONFINING) == ("", "")
    assert selinux_labels(Context(privileged=True, selinux_options=context.selinux_options), CONFINING) == ("", "")
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    config.linux.security_context.CopyFrom(context)
    spec = build_container(given(config, host=CONFINING))
    process, linux = cast(Mapping[str, object], spec["process"]), cast(Mapping[str, object], spec["linux"])
    assert (process["selinuxLabel"], linux["mountLabel"]) == labels
