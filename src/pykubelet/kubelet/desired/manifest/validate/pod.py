"""Rules for a pod as a whole that matter on a node without a cluster."""

from typing import Final

from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.containers import check_containers
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.kubelet.desired.manifest.validate.objects import check_metadata
from pykubelet.kubelet.desired.manifest.validate.resources import check_overhead, check_pod_resources
from pykubelet.kubelet.desired.manifest.validate.security import check_pod_security
from pykubelet.kubelet.desired.manifest.validate.volumes import check_volumes
from pykubelet.models import core_v1 as core

MAX_DNS_SERVERS: Final = 3
MAX_DNS_SEARCHES: Final = 32
MAX_DNS_SEARCH_CHARS: Final = 2048
_MAX_INT32: Final = (1 << 31) - 1


def check_pod(findings: Findings, pod: core.Pod) -> None:
    """Check a pod of a manifest with defaults set."""
    spec = pod.spec
    check_metadata(findings, pod.metadata)
    check_volumes(findings, spec.volumes)
    check_containers(findings, spec)
    check_pod_resources(findings, spec)
    check_overhead(findings, spec)
    check_pod_security(findings, spec)
    _check_policies(findings, spec)
    _check_host_names(findings, spec)
    _check_dns(findings, spec)
    _check_tolerations(findings, spec)
    _check_cluster_only(findings, spec)


def _check_policies(findings: Findings, spec: core.PodSpec) -> None:
    findings.one_of("spec.restartPolicy", spec.restart_policy, ("Always", "OnFailure", "Never"))
    findings.one_of("spec.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
    findings.in_range("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    findings.in_range("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1, _MAX_INT32)
    if spec.runtime_class_name is not None:
        findings.complaint("spec.runtimeClassName", names.dns_subdomain(spec.runtime_class_name))
    if spec.priority_class_name:
        findings.complaint("spec.priorityClassName", names.dns_subdomain(spec.priority_class_name))
    if spec.os is not None and findings.required("spec.os.name", spec.os.name):
        findings.one_of("spec.os.name", spec.os.name, ("linux",))
    for index, reference in enumerate(spec.image_pull_secrets):
        if reference.name:
            findings.complaint(f"spec.imagePullSecrets[{index}].name", names.dns_subdomain(reference.name))
    for index, gate in enumerate(spec.readiness_gates):
        findings.complaint(f"spec.readinessGates[{index}].conditionType", names.qualified_name(gate.condition_type))


def _check_host_names(findings: Findings, spec: core.PodSpec) -> None:
    for field, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if value:
            findings.complaint(f"spec.{field}", names.dns_label(value))
    override, path = spec.hostname_override, "spec.hostnameOverride"
    if override is not None:
        if len(override) > 64:
            findings.add(path, f"has {len(override)} characters, 64 are possible", "shorten it")
        findings.complaint(path, names.dns_subdomain(override))
        if spec.set_hostname_as_fqdn:
            findings.add(path, "cannot be combined with setHostnameAsFQDN", "take one of them away")
        if spec.host_network:
            findings.add(path, "cannot be combined with hostNetwork", "take one of them away")
    for index, alias in enumerate(spec.host_aliases):
        where = f"spec.hostAliases[{index}]"
        if findings.required(f"{where}.ip", alias.ip):
            findings.complaint(f"{where}.ip", names.ip_address(alias.ip))
        for number, hostname in enumerate(alias.hostnames):
            findings.complaint(f"{where}.hostnames[{number}]", names.dns_subdomain(hostname))


def _check_dns(findings: Findings, spec: core.PodSpec) -> None:
    policies = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
    findings.one_of("spec.dnsPolicy", spec.dns_policy, policies)
    config, path = spec.dns_config or core.PodDNSConfig(), "spec.dnsConfig"
    if spec.dns_policy == "None":
        findings.required(f"{path}.nameservers", config.nameservers, "dnsPolicy None takes nothing from the node")
    if len(config.nameservers) > MAX_DNS_SERVERS:
        message = f"has {len(config.nameservers)} servers, libc uses {MAX_DNS_SERVERS}"
        findings.add(f"{path}.nameservers", message, "take some away")
    for index, server in enumerate(config.nameservers):
        findings.complaint(f"{path}.nameservers[{index}]", names.ip_address(server))
    if len(config.searches) > MAX_DNS_SEARCHES or len(" ".join(config.searches)) > MAX_DNS_SEARCH_CHARS:
        message = f"has more than {MAX_DNS_SEARCHES} domains or {MAX_DNS_SEARCH_CHARS} characters"
        findings.add(f"{path}.searches", message, "take some away")
    for index, search in enumerate(config.searches):
        findings.complaint(f"{path}.searches[{index}]", names.search_domain(search))
    for index, option in enumerate(config.options):
        findings.required(f"{path}.options[{index}].name", option.name)


def _check_tolerations(findings: Findings, spec: core.PodSpec) -> None:
    for index, toleration in enumerate(spec.tolerations):
        where = f"spec.tolerations[{index}]"
        if toleration.key:
            findings.complaint(f"{where}.key", names.qualified_name(toleration.key))
        elif toleration.operator != "Exists":
            findings.add(f"{where}.operator", "must be Exists where key is empty", "write operator: Exists")
        findings.one_of(f"{where}.operator", toleration.operator, ("Equal", "Exists", "Lt", "Gt"))
        findings.one_of(f"{where}.effect", toleration.effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
        if toleration.operator == "Exists" and toleration.value:
            findings.add(f"{where}.value", "must be empty where operator is Exists", "take it away")
        elif toleration.operator in ("", "Equal"):
            findings.complaint(f"{where}.value", names.label_value(toleration.value))
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            findings.add(f"{where}.effect", "must be NoExecute where tolerationSeconds is given")


def _check_cluster_only(findings: Findings, spec: core.PodSpec) -> None:
    """Check that the pod does not use what needs an API server, which a static pod cannot."""
    if spec.ephemeral_containers:
        message = "cannot be given in a manifest: ephemeral containers are added to running pods"
        findings.add("spec.ephemeralContainers", message, "use containers")
    for field, value in (("serviceAccountName", spec.service_account_name), ("serviceAccount", spec.service_account)):
        if value:
            message = "needs an API server, which a static pod does not use"
            findings.add(f"spec.{field}", message, "take it away")
    for field, given in (("resourceClaims", spec.resource_claims), ("schedulingGates", spec.scheduling_gates)):
        if given:
            message = "needs an API server, which a static pod does not use"
            findings.add(f"spec.{field}", message, "take it away")
