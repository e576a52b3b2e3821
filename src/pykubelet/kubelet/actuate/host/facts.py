"""Facts of the node for pods, read at the start; only the resolver's file is checked again for every pod."""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cluster_interfaces import ClusterInputs
from pykubelet.kubelet.actuate.cri_messages.config_types import Resolver, SecurityConfig
from pykubelet.kubelet.actuate.cri_messages.environment.service_links import service_variables
from pykubelet.kubelet.actuate.host.resolv_conf import ResolvConf
from pykubelet.kubelet.actuate.host.runtime_facts import RuntimeFacts
from pykubelet.kubelet.types.reports.node_view import missing_handler
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity


class NodeOptions(Struct, frozen=True):
    """Facts of the node from the configuration."""

    name: str
    ips: tuple[str, ...]
    """Addresses at the start, primary first."""
    allocatable: Mapping[str, Quantity]
    resolv_conf: str
    """Path of the node's resolv.conf; empty: pods do not use it."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    sysctls: SysctlAllowlist = field(default_factory=SysctlAllowlist.safe)
    security: SecurityConfig = field(default_factory=SecurityConfig)


class NodeFacts:
    """Facts of the node for the pod runtime, the volume manager and the status."""

    def __init__(self, options: NodeOptions, cluster: ClusterInputs | None = None) -> None:
        self._options = options
        self._cluster = cluster
        self.resolv_conf = ResolvConf(options.resolv_conf, options.cluster_domain)
        """The node's file, which can have a fault."""
        self._own_ips = options.ips
        self._cloud_ips: tuple[str, ...] = ()
        self.runtime = RuntimeFacts()
        """Facts about the container runtime, unknown until it has started."""

    def reconfigure(self, options: NodeOptions) -> None:
        """Use these facts for pods from now on; addresses that were learned stay."""
        self._options = options
        self.resolv_conf = ResolvConf(options.resolv_conf, options.cluster_domain)

    @property
    def host_ips(self) -> tuple[str, ...]:
        return self.ips()

    @property
    def runtime_name(self) -> str:
        return self.runtime.name

    def recursive_read_only(self, handler: str | None) -> bool:
        """Whether the runtime handler (None: the default) supports recursive read-only mounts."""
        return self.runtime.recursive_read_only(handler)

    def name(self) -> str:
        return self._options.name

    def ips(self) -> tuple[str, ...]:
        return self._cloud_ips or self._own_ips

    def learn_own_ips(self, ips: tuple[str, ...]) -> None:
        """Set the machine's own addresses, primary first, which have changed since the start."""
        self._own_ips = ips

    def learn_ips(self, ips: tuple[str, ...]) -> None:
        """Set the addresses from the cloud controller, primary first; empty if there are none (any more)."""
        self._cloud_ips = ips

    def allocatable(self) -> Mapping[str, Quantity]:
        return self._options.allocatable

    def resolver(self) -> Resolver:
        """DNS settings of the node; an unreadable file counts as empty and is logged. Transient: as of `ResolvConf`."""
        return replace(
            self.resolv_conf.read(),
            cluster_dns=self._options.cluster_dns,
            cluster_domain=self._options.cluster_domain,
            node_ips=self.ips(),
            in_cluster=self._cluster is not None,
        )

    def sysctls(self) -> SysctlAllowlist:
        return self._options.sysctls

    def security(self) -> SecurityConfig:
        return self._options.security

    def runtime_handler(self, pod: Pod) -> str:
        """Runtime handler of the pod's RuntimeClass. Raises NotFound.

        Without an API server there are no RuntimeClass objects: the class name is taken as the handler's name. The
        same holds for static pods, which have to start without the API server.
        """
        name = pod.spec.runtime_class_name or ""
        if name and self._cluster is not None and not is_static(pod):
            name = self._cluster.runtime_handler(name)
        if fault := missing_handler(name, self.runtime.handler_names):
            raise NotFound(f"RuntimeClass {name!r}: {fault}")
        return name

    def services(self, pod: Pod) -> Mapping[str, str]:
        """Service environment variables of the pod; none without an API server."""
        if self._cluster is None:
            return {}
        links = pod.spec.enable_service_links
        namespace = pod.metadata.namespace or "default"
        return service_variables(self._cluster.services, namespace, links is None or links)
