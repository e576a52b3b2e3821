"""Builds the CRI message that creates a pod's sandbox."""

from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError, ConfigReason, SandboxContext, describe
from pykubelet.kubelet.actuate.cri_messages.dns import pod_dns
from pykubelet.kubelet.actuate.cri_messages.labels import sandbox_annotations, sandbox_labels
from pykubelet.kubelet.actuate.cri_messages.names import kernel_hostname, pod_hostname, pod_log_dir
from pykubelet.kubelet.actuate.cri_messages.port_mappings import port_mappings
from pykubelet.kubelet.actuate.cri_messages.resources import resources_message
from pykubelet.kubelet.actuate.cri_messages.security import sandbox_security
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.sysctls import pod_sysctls
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


def sandbox_config(pod: Pod, attempt: int, context: SandboxContext) -> pb.PodSandboxConfig:
    """Build the message for the pod's sandbox; `attempt` counts its sandboxes from 0.

    DNS warnings are in the result of :func:`dns.pod_dns`. Raises ConfigError if the spec is invalid or not possible.
    """
    refusal = context.sysctls.refusal(pod)
    if refusal:
        raise ConfigError(ConfigReason.SYSCTL_FORBIDDEN, refusal)
    try:
        return _message(pod, attempt, context)
    except ValueError as error:  # a number or text of the spec that does not fit the wire
        raise ConfigError(
            ConfigReason.CREATE_POD_SANDBOX,
            f'Failed to generate sandbox config for pod "{describe(pod)}": {error}',
        ) from error


def _message(pod: Pod, attempt: int, context: SandboxContext) -> pb.PodSandboxConfig:
    meta = pod.metadata
    dns = pod_dns(pod, context.resolver)
    hostname = ""
    if not pod.spec.host_network:
        hostname = kernel_hostname(pod, pod_hostname(pod, context.resolver.cluster_domain))
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=meta.name, namespace=meta.namespace, uid=meta.uid, attempt=attempt),
        hostname=hostname,
        log_directory=pod_log_dir(context.log_root, ref_of(pod)),
        dns_config=pb.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options),
        port_mappings=port_mappings(pod),
        labels=sandbox_labels(pod),
        annotations=sandbox_annotations(pod),
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=context.cgroup_parent,
            security_context=sandbox_security(pod, context.user_namespace, context.extra_groups),
            sysctls=pod_sysctls(pod),
            resources=resources_message(context.resources) if context.resources else None,
            overhead=resources_message(context.overhead) if context.overhead else None,
        ),
    )
