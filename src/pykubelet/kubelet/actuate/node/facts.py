"""Facts of the node for pods, read at the start; only the resolver's file is checked again for every pod."""

import logging
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cluster_interfaces import ClusterInputs
from pykubelet.kubelet.actuate.criconfig.config_types import Resolver, SecurityConfig
from pykubelet.kubelet.actuate.criconfig.dns import parse_resolv_conf, resolv_conf_fault
from pykubelet.kubelet.actuate.criconfig.environment.service_links import service_variables
from pykubelet.kubelet.types.reports.node_view import missing_handler
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


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


class HandlerFacts(Struct, frozen=True):
    """Features of a runtime handler."""

    name: str
    """Name of the handler; empty for the default."""
    recursive_read_only: bool
    user_namespaces: bool


class NodeFacts:
    """Facts of the node for the pod runtime, the volume manager and the status."""

    def __init__(self, options: NodeOptions, cluster: ClusterInputs | None = None) -> None:
        self._options = options
        self._cluster = cluster
        self._resolver: tuple[tuple[int, int], Resolver] | None = None
        self._own_ips = options.ips
        self._cloud_ips: tuple[str, ...] = ()
        self._runtime_name = ""
        self._runtime_version = ""
        self._recursive: frozenset[str] = frozenset()
        self._handlers: frozenset[str] = frozenset()
        self._facts: tuple[HandlerFacts, ...] = ()
        self._supplemental_groups_policy: bool | None = None

    def reconfigure(self, options: NodeOptions) -> None:
        """Use these facts for pods from now on; addresses that were learned stay."""
        self._options = options
        self._resolver = None

    def learn(self, version: pb.VersionResponse, status: pb.StatusResponse) -> None:
        """Update the facts about the runtime; called whenever the runtime has started."""
        self._runtime_name = version.runtime_name
        self._runtime_version = version.runtime_version
        self._handlers = frozenset(handler.name for handler in status.runtime_handlers)
        self._recursive = frozenset(
            handler.name for handler in status.runtime_handlers if handler.features.recursive_read_only_mounts
        )
        self._facts = tuple(
            HandlerFacts(h.name, h.features.recursive_read_only_mounts, h.features.user_namespaces)
            for h in sorted(status.runtime_handlers, key=lambda h: h.name)
        )
        told = status.HasField("features")
        self._supplemental_groups_policy = status.features.supplemental_groups_policy if told else None

    @property
    def handlers(self) -> tuple[HandlerFacts, ...]:
        """The runtime's handlers; empty until they are known."""
        return self._facts

    @property
    def supplemental_groups_policy(self) -> bool | None:
        """Whether the runtime supports supplementalGroupsPolicy (KEP-3619); None: not reported."""
        return self._supplemental_groups_policy

    @property
    def host_ips(self) -> tuple[str, ...]:
        return self.ips()

    @property
    def runtime_name(self) -> str:
        return self._runtime_name

    @property
    def runtime_version(self) -> str:
        return self._runtime_version

    def recursive_read_only(self, handler: str | None) -> bool:
        """Whether the runtime handler (None: the default) supports recursive read-only mounts."""
        return (handler or "") in self._recursive

    def user_namespaces(self, handler: str) -> bool | None:
        """Whether the runtime handler ("": the default) supports user namespaces; None if it is unknown or does not
        report it."""
        return next((facts.user_namespaces for facts in self._facts if facts.name == handler), None)

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
        """DNS settings of the node; an unreadable file counts as empty and is logged."""
        options = self._options
        base = self._read_resolver() if options.resolv_conf else Resolver(has_file=False)
        return replace(
            base,
            cluster_dns=options.cluster_dns,
            cluster_domain=options.cluster_domain,
            node_ips=self.ips(),
            in_cluster=self._cluster is not None,
        )

    def resolv_conf_fault(self) -> str | None:
        """Problem of the node's resolv.conf, for an event of the node; None: valid, or not used. Blocks briefly."""
        path = self._options.resolv_conf
        if not path:
            return None
        try:
            parsed = self._parse_resolv_conf(Path(path))
        except OSError as error:
            return f"open {path}: {(error.strerror or str(error)).lower()}"
        return resolv_conf_fault(replace(parsed, cluster_domain=self._options.cluster_domain), path)

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
        if fault := missing_handler(name, self._handlers):
            raise NotFound(f"RuntimeClass {name!r}: {fault}")
        return name

    def services(self, pod: Pod) -> Mapping[str, str]:
        """Service environment variables of the pod; none without an API server."""
        if self._cluster is None:
            return {}
        links = pod.spec.enable_service_links
        namespace = pod.metadata.namespace or "default"
        return service_variables(self._cluster.services, namespace, links is None or links)

    def _read_resolver(self) -> Resolver:
        path = Path(self._options.resolv_conf)
        try:
            return self._parse_resolv_conf(path)
        except OSError as error:
            _log.warning("resolver configuration unreadable", extra={"path": str(path), "error": error.strerror})
            return Resolver()

    def _parse_resolv_conf(self, path: Path) -> Resolver:
        stat = path.stat()
        mark = (stat.st_mtime_ns, stat.st_ino)
        if self._resolver is None or self._resolver[0] != mark:
            self._resolver = (mark, parse_resolv_conf(path.read_text(errors="replace")))
        return self._resolver[1]
