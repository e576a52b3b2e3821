"""Rules for containers: names, images, ports, environment, mounts."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.kubelet.desired.manifest.validate.handlers import check_lifecycle, check_probes
from pykubelet.kubelet.desired.manifest.validate.resources import check_resource_field, check_resources
from pykubelet.kubelet.desired.manifest.validate.security import check_container_security
from pykubelet.kubelet.desired.manifest.validate.volumes import check_field_ref
from pykubelet.models import core_v1 as core

_ENV_FIELD_PATHS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_ENV_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255


class PodContext(Struct, frozen=True):
    """Properties of the pod that the rules of a container need."""

    spec: core.PodSpec
    volumes: Mapping[str, core.Volume]
    claims: frozenset[str]

    @staticmethod
    def of(spec: core.PodSpec) -> "PodContext":
        volumes = {volume.name: volume for volume in spec.volumes}
        return PodContext(spec, volumes, frozenset(claim.name for claim in spec.resource_claims))


def check_containers(findings: Findings, spec: core.PodSpec) -> None:
    """Check all containers and init containers of a pod."""
    context = PodContext.of(spec)
    findings.required("spec.containers", spec.containers, "a pod has at least one container")
    seen: dict[str, str] = {}
    lists = (("spec.containers", spec.containers), ("spec.initContainers", spec.init_containers))
    for list_path, containers in lists:
        for index, container in enumerate(containers):
            path = f"{list_path}[{index}]"
            _check_name(findings, container.name, path, seen)
            _check_container(findings, container, path, context)
            if list_path == "spec.containers":
                _check_restart(findings, container, path)
                check_probes(findings, container, path)
                check_lifecycle(findings, container, path, spec)
            else:
                _check_init(findings, container, path, spec)
    _check_host_ports(findings, spec)


def _check_name(findings: Findings, name: str, path: str, seen: dict[str, str]) -> None:
    if not findings.required(f"{path}.name", name):
        return
    findings.complaint(f"{path}.name", names.dns_label(name))
    if name in seen:
        findings.add(f"{path}.name", f"the name {name!r} is also that of {seen[name]}", "rename one of the containers")
    seen.setdefault(name, path)


def _check_container(findings: Findings, container: core.Container, path: str, context: PodContext) -> None:
    if findings.required(f"{path}.image", container.image) and container.image.strip() != container.image:
        findings.add(f"{path}.image", "has blanks at its ends", "take them away")
    findings.one_of(f"{path}.imagePullPolicy", container.image_pull_policy, ("Always", "IfNotPresent", "Never"))
    policies = ("File", "FallbackToLogsOnError")
    findings.one_of(f"{path}.terminationMessagePolicy", container.termination_message_policy, policies)
    _check_ports(findings, container.ports, f"{path}.ports", bool(context.spec.host_network))
    _check_env(findings, container.env, f"{path}.env", context)
    _check_env_from(findings, container.env_from, f"{path}.envFrom")
    _check_mounts(findings, container, f"{path}.volumeMounts", context)
    if container.volume_devices:
        findings.add(f"{path}.volumeDevices", "needs persistent volumes, which need an API server", "use volumeMounts")
    check_resources(findings, container.resources, f"{path}.resources", context.claims)
    _check_resize(findings, container, f"{path}.resizePolicy", context.spec.restart_policy)
    host_users = context.spec.host_users is not False
    check_container_security(findings, container.security_context, f"{path}.securityContext", host_users=host_users)


def _check_ports(findings: Findings, ports: Iterable[core.ContainerPort], path: str, host_network: bool) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if port.name:
            findings.complaint(f"{where}.name", names.port_name(port.name))
            if port.name in seen:
                findings.add(f"{where}.name", f"the name {port.name!r} is given twice", "rename one of the ports")
            seen.add(port.name)
        findings.in_range(f"{where}.containerPort", port.container_port, 1, 65535)
        findings.one_of(f"{where}.protocol", port.protocol, ("TCP", "UDP", "SCTP"))
        if port.host_port:
            findings.in_range(f"{where}.hostPort", port.host_port, 1, 65535)
        if host_network and port.host_port != port.container_port:
            message = "must equal containerPort, since hostNetwork is true"
            findings.add(f"{where}.hostPort", message, "take hostPort away")
        if port.host_ip:
            findings.complaint(f"{where}.hostIP", names.ip_address(port.host_ip))


def _check_host_ports(findings: Findings, spec: core.PodSpec) -> None:
    """Check that no two concurrent containers use one host port; ordinary init containers run alone."""
    taken: dict[tuple[str, str, int], str] = {}
    lists = [("spec.containers", index, container) for index, container in enumerate(spec.containers)]
    lists += [("spec.initContainers", index, container) for index, container in enumerate(spec.init_containers)]
    for list_path, index, container in lists:
        is_concurrent = list_path == "spec.containers" or container.restart_policy == "Always"
        ports = taken if is_concurrent else {}
        for number, port in enumerate(container.ports):
            key = (port.protocol, port.host_ip, port.host_port or 0)
            where = f"{list_path}[{index}].ports[{number}].hostPort"
            if port.host_port and key in ports:
                findings.add(where, f"{port.host_port}/{port.protocol} is already taken by {ports[key]}", "change one")
            ports.setdefault(key, f"{list_path}[{index}]")


def _check_env(findings: Findings, variables: Iterable[core.EnvVar], path: str, context: PodContext) -> None:
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        if findings.required(f"{where}.name", variable.name):
            findings.complaint(f"{where}.name", names.env_name(variable.name))
        if variable.value_from is None:
            continue
        if variable.value:
            findings.add(f"{where}.valueFrom", "cannot stand beside value", "take one of them away")
        _check_env_source(findings, variable.value_from, f"{where}.valueFrom", context)


def _check_env_source(findings: Findings, source: core.EnvVarSource, path: str, context: PodContext) -> None:
    values = (
        source.field_ref,
        source.resource_field_ref,
        source.config_map_key_ref,
        source.secret_key_ref,
        source.file_key_ref,
    )
    given = [field for field, value in zip(_ENV_SOURCES, values, strict=True) if value is not None]
    if not findings.exactly_one(path, given, _ENV_SOURCES, "source"):
        return
    where = f"{path}.{given[0]}"
    if source.field_ref is not None:
        check_field_ref(findings, source.field_ref, where, _ENV_FIELD_PATHS)
    elif source.resource_field_ref is not None:
        check_resource_field(findings, source.resource_field_ref, where, in_volume=False)
    elif source.file_key_ref is not None:
        _check_file_key(findings, source.file_key_ref, where, context)
    else:
        reference = source.config_map_key_ref or source.secret_key_ref
        if reference is not None and findings.required(f"{where}.name", reference.name):
            findings.complaint(f"{where}.name", names.dns_subdomain(reference.name))
        if reference is not None and findings.required(f"{where}.key", reference.key):
            findings.complaint(f"{where}.key", names.config_key(reference.key))


def _check_file_key(findings: Findings, reference: core.FileKeySelector, path: str, context: PodContext) -> None:
    if findings.required(f"{path}.key", reference.key):
        findings.complaint(f"{path}.key", names.env_name(reference.key))
    if findings.required(f"{path}.path", reference.path):
        findings.complaint(f"{path}.path", names.no_steps_back(reference.path))
    if not findings.required(f"{path}.volumeName", reference.volume_name):
        return
    volume = context.volumes.get(reference.volume_name)
    if volume is None or volume.empty_dir is None:
        message = f"the pod has no emptyDir volume {reference.volume_name!r}"
        findings.add(f"{path}.volumeName", message, "name an emptyDir of spec.volumes")


def _check_env_from(findings: Findings, sources: Iterable[core.EnvFromSource], path: str) -> None:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.prefix:
            findings.complaint(f"{where}.prefix", names.env_name(source.prefix))
        references = (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref))
        given = [(field, reference) for field, reference in references if reference is not None]
        fields = [field for field, _ in given]
        if findings.exactly_one(where, fields, ("configMapRef", "secretRef"), "source"):
            field, reference = given[0]
            if findings.required(f"{where}.{field}.name", reference.name):
                findings.complaint(f"{where}.{field}.name", names.dns_subdomain(reference.name))


def _check_mounts(findings: Findings, container: core.Container, path: str, context: PodContext) -> None:
    seen: set[str] = set()
    security = container.security_context
    privileged = bool(security and security.privileged)
    for index, mount in enumerate(container.volume_mounts):
        where = f"{path}[{index}]"
        if findings.required(f"{where}.name", mount.name) and mount.name not in context.volumes:
            have = ", ".join(sorted(context.volumes)) or "none"
            findings.add(f"{where}.name", f"the pod has no volume {mount.name!r}", f"its volumes are: {have}")
        if findings.required(f"{where}.mountPath", mount.mount_path):
            _check_mount_path(findings, mount.mount_path, f"{where}.mountPath", seen)
        for field, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            if value:
                findings.complaint(f"{where}.{field}", names.relative_path(value))
        if mount.sub_path and mount.sub_path_expr:
            findings.add(f"{where}.subPathExpr", "cannot stand beside subPath", "take one of them away")
        modes = ("None", "HostToContainer", "Bidirectional")
        findings.one_of(f"{where}.mountPropagation", mount.mount_propagation, modes)
        if mount.mount_propagation == "Bidirectional" and not privileged:
            message = "Bidirectional is only for privileged containers"
            findings.add(f"{where}.mountPropagation", message, "use HostToContainer, or securityContext.privileged")
        _check_recursive(findings, mount, f"{where}.recursiveReadOnly")


def _check_mount_path(findings: Findings, mount_path: str, where: str, seen: set[str]) -> None:
    if not mount_path.startswith("/"):
        findings.add(where, f"{mount_path!r} is not absolute", "begin it with '/'")
    elif ".." in mount_path.split("/"):
        findings.add(where, f"{mount_path!r} contains '..'", "write the path out")
    if mount_path in seen:
        findings.add(where, f"{mount_path!r} is mounted twice", "change one of the paths")
    seen.add(mount_path)


def _check_recursive(findings: Findings, mount: core.VolumeMount, where: str) -> None:
    mode = mount.recursive_read_only
    findings.one_of(where, mode, ("Disabled", "IfPossible", "Enabled"))
    if mode not in ("IfPossible", "Enabled"):
        return
    if not mount.read_only:
        findings.add(where, "needs readOnly: true", "set it, or take this field away")
    if mount.mount_propagation not in ("", "None"):
        findings.add(where, "cannot be combined with mountPropagation", "take one of them away")


def _check_resize(findings: Findings, container: core.Container, path: str, restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(container.resize_policy):
        where = f"{path}[{index}]"
        if findings.required(f"{where}.resourceName", policy.resource_name):
            findings.one_of(f"{where}.resourceName", policy.resource_name, ("cpu", "memory"))
        if policy.resource_name in seen:
            findings.add(f"{where}.resourceName", f"{policy.resource_name} is given twice", "take one away")
        seen.add(policy.resource_name)
        if findings.required(f"{where}.restartPolicy", policy.restart_policy):
            findings.one_of(f"{where}.restartPolicy", policy.restart_policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy.restart_policy == "RestartContainer":
            message = "cannot restart: the pod's restartPolicy is Never"
            findings.add(f"{where}.restartPolicy", message, "use NotRequired")


def _check_init(findings: Findings, container: core.Container, path: str, spec: core.PodSpec) -> None:
    """Check that only sidecars have probes and hooks: other init containers run once and end (KEP-753)."""
    _check_restart(findings, container, path)
    if container.restart_policy == "Always":
        check_probes(findings, container, path)
        check_lifecycle(findings, container, path, spec)
        return
    fields = (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    )
    for field, value in fields:
        if value is not None:
            message = "is not possible for an init container that ends"
            findings.add(f"{path}.{field}", message, "take it away, or make a sidecar with restartPolicy: Always")


def _check_restart(findings: Findings, container: core.Container, path: str) -> None:
    """Check a container's own restart policy and rules by exit code (KEP-5307)."""
    rules = container.restart_policy_rules
    if not container.restart_policy:
        if rules:
            message = "is required beside restartPolicyRules"
            findings.add(f"{path}.restartPolicy", message, "give Always, OnFailure or Never")
        return
    findings.one_of(f"{path}.restartPolicy", container.restart_policy, ("Always", "OnFailure", "Never"))
    if len(rules) > _MAX_RULES:
        findings.add(f"{path}.restartPolicyRules", f"has {len(rules)} rules, {_MAX_RULES} are possible")
    for index, rule in enumerate(rules):
        where = f"{path}.restartPolicyRules[{index}]"
        if findings.required(f"{where}.action", rule.action):
            findings.one_of(f"{where}.action", rule.action, ("Restart", "RestartAllContainers"))
        if rule.exit_codes is None:
            findings.add(f"{where}.exitCodes", "is required")
            continue
        if findings.required(f"{where}.exitCodes.operator", rule.exit_codes.operator):
            findings.one_of(f"{where}.exitCodes.operator", rule.exit_codes.operator, ("In", "NotIn"))
        if len(rule.exit_codes.values) > _MAX_EXIT_CODES:
            findings.add(f"{where}.exitCodes.values", f"has more than {_MAX_EXIT_CODES} values")
