"""Builds the complete spec of a container. Pure."""

from pykubelet.criserver.spec.annotations import container_annotations
from pykubelet.criserver.spec.base_spec import over_base
from pykubelet.criserver.spec.mounts import build_mounts, rootfs_propagation
from pykubelet.criserver.spec.process import build_process
from pykubelet.criserver.spec.resources import build_resources, device_rules
from pykubelet.criserver.spec.security.labels import file_label
from pykubelet.criserver.spec.spec_types import OCI_VERSION, ContainerInput, Json, device_node
from pykubelet.criserver.spec.userns import mappings


def build_container(given: ContainerInput) -> Json:
    """Build ``config.json``. Invalid names the problem in the request."""
    context = given.config.linux.security_context
    spec: Json = {
        "ociVersion": OCI_VERSION,
        "process": build_process(given),
        "root": {"path": given.rootfs, "readonly": context.readonly_rootfs},
        "mounts": build_mounts(given),
        "annotations": container_annotations(given),
        "linux": _linux(given),
    }
    base = given.sandbox.handler.base
    return spec if base is None else over_base(base, spec)


def _may_use_all_devices(given: ContainerInput) -> bool:
    options = given.sandbox.handler
    return given.config.linux.security_context.privileged and (
        not options.privileged_without_host_devices or options.privileged_without_host_devices_all_devices_allowed
    )


def _linux(given: ContainerInput) -> Json:
    context = given.config.linux.security_context
    resources = build_resources(given.config.linux.resources, given.host)
    resources["devices"] = device_rules(given.devices, _may_use_all_devices(given))
    linux: Json = {
        "cgroupsPath": given.cgroup,
        "resources": resources,
        "namespaces": namespaces(given),
        "devices": [device_node(device) for device in given.devices],
    }
    if not context.privileged:
        # No defaults: kubelets always send the lists; they are empty for procMount: Unmasked.
        linux["maskedPaths"] = list(context.masked_paths)
        linux["readonlyPaths"] = list(context.readonly_paths)
    if given.seccomp is not None and not context.privileged:
        linux["seccomp"] = given.seccomp
    if given.sandbox.user is not None:
        linux |= mappings(given.sandbox.user.ids)
    if files := file_label(context, given.host, given.sandbox.selinux_level):
        linux["mountLabel"] = files
    propagation = rootfs_propagation(given.config)
    if propagation:
        linux["rootfsPropagation"] = propagation
    return linux


def namespaces(given: ContainerInput) -> list[dict[str, str]]:
    """The namespaces to join or to create; the node's are omitted."""
    found = [{"type": "mount"}]
    found += [{"type": kind, "path": path} for kind, path in given.sandbox.namespaces.items()]
    if given.pid_namespace is not None:
        found.append({"type": "pid", "path": given.pid_namespace} if given.pid_namespace else {"type": "pid"})
    if given.host.cgroup_version == 2 and not given.config.linux.security_context.privileged:
        found.append({"type": "cgroup"})
    return found
