"""Promises of the generated modules that the rest of the project relies on."""

import subprocess
import sys

import msgspec
import pytest

from pykubelet.models import (
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    codec,
    coordination_v1,
    core_v1,
    events_v1,
    meta_v1,
    node_v1,
    resource_v1,
    storage_v1,
)
from pykubelet.models.scalars import KubeStruct

MODULES = (
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    events_v1,
    meta_v1,
    node_v1,
    resource_v1,
    storage_v1,
)
STRUCTS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, KubeStruct) and value.__module__ == module.__name__
]


@pytest.mark.parametrize(
    ("model", "attribute", "name"),
    [
        (core_v1.PodStatus, "pod_ip", "podIP"),
        (core_v1.PodStatus, "pod_ips", "podIPs"),
        (core_v1.PodStatus, "host_ip", "hostIP"),
        (core_v1.ServiceSpec, "cluster_ip", "clusterIP"),
        (core_v1.ContainerStatus, "container_id", "containerID"),
        (core_v1.PodSpec, "host_pid", "hostPID"),
        (core_v1.PodSpec, "init_containers", "initContainers"),
        (core_v1.PodSpec, "set_hostname_as_fqdn", "setHostnameAsFQDN"),
        (core_v1.Probe, "http_get", "httpGet"),
        (core_v1.PodSecurityContext, "fs_group", "fsGroup"),
        (core_v1.PodSecurityContext, "se_linux_options", "seLinuxOptions"),
        (core_v1.NodeSystemInfo, "system_uuid", "systemUUID"),
        (meta_v1.ListMeta, "continue_", "continue"),
        (meta_v1.ObjectMeta, "uid", "uid"),
        (core_v1.DaemonEndpoint, "port", "Port"),
        (resource_v1.DeviceAttribute, "bool_", "bool"),
    ],
)
def test_attribute_has_the_name_of_its_field_in_json(model: type[KubeStruct], attribute: str, name: str) -> None:
    names = {info.name: info.encode_name for info in msgspec.structs.fields(model)}
    assert names[attribute] == name


@pytest.mark.parametrize("model", STRUCTS, ids=lambda model: model.__qualname__)
def test_every_model_can_be_decoded_and_encoded(model: type[KubeStruct]) -> None:
    needed = {info.encode_name: info for info in msgspec.structs.fields(model) if info.required}
    if not needed:
        assert codec.encode(codec.decode(b"{}", model)) == b"{}"
    else:
        # What has no default is a number, a truth value, or an object made of such; never a text or a list.
        assert all(info.type not in (str, bytes) for info in needed.values())


def test_objects_cannot_be_changed() -> None:
    pod = core_v1.Pod()
    with pytest.raises(AttributeError):
        pod.kind = "Node"  # type: ignore[misc] # that it is forbidden is what is tested


def test_defaults_are_not_shared() -> None:
    first, second = meta_v1.ObjectMeta(), meta_v1.ObjectMeta()
    first.labels["a"] = "b"
    assert second.labels == {}


def test_importing_pods_is_cheap() -> None:
    """Under 8 MB, as all parts of the agent import it. (Time is left to the benchmarks: it depends on the machine.)"""
    code = """
import datetime, typing, msgspec, resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import pykubelet.models.core_v1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert int(done.stdout) < 8 * 1024
