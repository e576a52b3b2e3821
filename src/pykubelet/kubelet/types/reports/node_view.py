"""The node as the local API shows it to the command line, the request to apply manifests, and its result."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.models.scalars import Quantity


class ObjectView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A ConfigMap or Secret that a manifest defines, without its content."""

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...] = ()
    source: str = ""
    """The file that defines it."""


class HostPortView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A host port of a pod."""

    ip: str = ""
    """Empty or 0.0.0.0: on all addresses."""
    protocol: str = "TCP"
    port: int


class PodView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that is admitted and has not ended: it uses resources and ports of the node."""

    namespace: str
    name: str
    """The name in its manifest, without that of the node."""
    source: str = ""
    """The file or URL that defines it; empty: the API server."""
    requests: Mapping[str, Quantity] = {}
    """Requests of the whole pod, by resource."""
    host_ports: tuple[HostPortView, ...] = ()


class NodeView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The node against which manifests are checked."""

    name: str
    manifests: str = ""
    """Path of the manifest directory, or of the one manifest; empty: it has neither."""
    cluster: bool = False
    """Whether the node has an API server, which may have objects that the manifests lack."""
    labels: Mapping[str, str] = {}
    allocatable: Mapping[str, Quantity] = {}
    """Resources for pods, by name; an extended resource that is not listed is not registered."""
    max_pods: int = 110
    runtime_handlers: tuple[str, ...] = ()
    """Handlers of the container runtime, the default one as an empty name; none: they are unknown."""
    app_armor: bool = False
    strict_groups: bool | None = None
    """Whether the runtime supports the supplemental groups policy Strict; None: unknown."""
    sysctls: tuple[str, ...] = ()
    """Sysctls that pods may set besides those that are safe on every kernel; a name may end in ``*``."""
    objects: tuple[ObjectView, ...] = ()
    pods: tuple[PodView, ...] = ()


class DocumentView(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of manifests, or the standard input of a command."""

    origin: str
    """Its name in messages."""
    text: str


class ApplyRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Documents whose objects are to be created or changed, all or none of them."""

    documents: tuple[DocumentView, ...]
    namespace: str = ""
    """The namespace of objects that name none; empty: ``default``."""
    dry_run: bool = False
    """Whether to tell what would be done, and to write nothing."""


class ChangeView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Result of a change of an object."""

    label: str
    """``pod/demo``."""
    namespace: str = ""
    change: str
    """``created``, ``configured`` or ``unchanged``."""
    uid: str = ""
    """The uid of a pod; empty: another object."""


class ApplyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Result of a request."""

    findings: tuple[str, ...] = ()
    """Errors and doubts in the documents, as ``pykubelet check`` prints them."""
    errors: int = 0
    """Number of the findings that are errors; then nothing was changed."""
    changes: tuple[ChangeView, ...] = ()
    """In the order in which they were made."""
    fault: str = ""
    """The reason why the objects after the last change were not changed; empty: all were."""


def missing_handler(name: str, handlers: Iterable[str]) -> str:
    """Return why a container runtime with these handlers cannot run pods of a RuntimeClass.

    Empty: it has the handler, or its handlers are unknown, or the pod names no class.
    """
    known = frozenset(handlers)
    if not name or not known or name in known:
        return ""
    listed = ", ".join(sorted(each for each in known if each)) or "only the default"
    return f"no such handler in the container runtime; available: {listed}"
