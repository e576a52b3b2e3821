"""The node as pods see it. Read at start, but for the resolver, whose file is looked at again for every pod."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.criconfig.dns import parse_resolv_conf
from pykubelet.kubelet.actuate.criconfig.service_links import service_variables
from pykubelet.kubelet.actuate.criconfig.sysctls import SysctlAllowlist
from pykubelet.kubelet.actuate.criconfig.types import Resolver, SecurityConfig
from pykubelet.kubelet.actuate.ports import ClusterInputs
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The configuration's part."""

    name: str
    ips: tuple[str, ...]
    """Primary first."""
    allocatable: Mapping[str, Quantity]
    resolv_conf: str
    """Path of the node's resolver configuration; empty: pods get none of it."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    sysctls: SysctlAllowlist = field(default_factory=SysctlAllowlist.safe)
    security: SecurityConfig = field(default_factory=SecurityConfig)


@dataclass(frozen=True, slots=True)
class HandlerFacts:
    """What a handler of the runtime can do."""

    name: str
    """Empty for the default."""
    recursive_read_only: bool
    user_namespaces: bool


class NodeFacts:
    """Answers for the pod runtime, the volumes and the status."""

    def __init__(self, options: NodeOptions, cluster: ClusterInputs | None = None) -> None:
        self._options = options
        self._cluster = cluster
        self._resolver: tuple[tuple[int, int], Resolver] | None = None
        self._told_ips: tuple[str, ...] = ()
        self._runtime_name = ""
        self._runtime_version = ""
        self._recursive: frozenset[str] = frozenset()
        self._handlers: frozenset[str] = frozenset()
        self._facts: tuple[HandlerFacts, ...] = ()
        self._supplemental_groups_policy: bool | None = None

    def learn(self, version: pb.VersionResponse, status: pb.StatusResponse) -> None:
        """Take note of what the runtime says about itself; called whenever it came up."""
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
        """The runtime's handlers; empty while it has not told."""
        return self._facts

    @property
    def supplemental_groups_policy(self) -> bool | None:
        """Whether the runtime can keep the image's groups out of containers (KEP-3619); None: it does not tell."""
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
        """Whether the runtime handler (None: the default) can mount recursively read-only."""
        return (handler or "") in self._recursive

    def user_namespaces(self, handler: str) -> bool | None:
        """Whether that handler ("": the default) gives pods user namespaces; None if the runtime has none of the name,
        or does not tell."""
        return next((facts.user_namespaces for facts in self._facts if facts.name == handler), None)

    def name(self) -> str:
        return self._options.name

    def ips(self) -> tuple[str, ...]:
        return self._told_ips or self._options.ips

    def learn_ips(self, ips: tuple[str, ...]) -> None:
        """A cloud's controller has said which addresses the node has, primary first; none: it has not, or no more."""
        self._told_ips = ips

    def allocatable(self) -> Mapping[str, Quantity]:
        return self._options.allocatable

    def resolver(self) -> Resolver:
        """The node's resolver; an unreadable file counts as empty, with a warning each time it changes."""
        options = self._options
        base = self._read_resolver() if options.resolv_conf else Resolver(has_file=False)
        return replace(
            base,
            cluster_dns=options.cluster_dns,
            cluster_domain=options.cluster_domain,
            node_ips=self.ips(),
            in_cluster=self._cluster is not None,
        )

    def sysctls(self) -> SysctlAllowlist:
        return self._options.sysctls

    def security(self) -> SecurityConfig:
        return self._options.security

    def runtime_handler(self, pod: Pod) -> str:
        """The handler that the pod's runtime class names.

        Without an API server there are no RuntimeClass objects: the class name is the handler's own. So it is for
        static pods, which have to start while there is no API server.
        """
        name = pod.spec.runtime_class_name or ""
        if name and self._cluster is not None and not is_static(pod):
            name = self._cluster.runtime_handler(name)
        if name and self._handlers and name not in self._handlers:
            known = ", ".join(sorted(handler for handler in self._handlers if handler)) or "only the default"
            raise NotFound(f"RuntimeClass {name!r}: the container runtime has no such handler; it has: {known}")
        return name

    def services(self, pod: Pod) -> Mapping[str, str]:
        """Variables for services; none without an API server."""
        if self._cluster is None:
            return {}
        links = pod.spec.enable_service_links
        namespace = pod.metadata.namespace or "default"
        return service_variables(self._cluster.services(), namespace, links is None or links)

    def _read_resolver(self) -> Resolver:
        path = Path(self._options.resolv_conf)
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_ino)
            if self._resolver is None or self._resolver[0] != mark:
                self._resolver = (mark, parse_resolv_conf(path.read_text(errors="replace")))
            return self._resolver[1]
        except OSError as error:
            _log.warning("resolver configuration not readable", extra={"path": str(path), "error": error.strerror})
            return Resolver()
