"""Facts about the container runtime and its handlers, as it reports them."""

from msgspec import Struct

from pykubelet.pb import runtime_v1_pb2 as pb


class HandlerFacts(Struct, frozen=True):
    """Features of a runtime handler."""

    name: str
    """Name of the handler; empty for the default."""
    recursive_read_only: bool
    user_namespaces: bool


class RuntimeFacts:
    """Facts about the container runtime; empty until it has started."""

    def __init__(self) -> None:
        self._name = ""
        self._version = ""
        self._recursive: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._facts: tuple[HandlerFacts, ...] = ()
        self._supplemental_groups_policy: bool | None = None

    def learn(self, version: pb.VersionResponse, status: pb.StatusResponse) -> None:
        """Update the facts about the runtime; called whenever the runtime has started."""
        self._name = version.runtime_name
        self._version = version.runtime_version
        self._names = frozenset(handler.name for handler in status.runtime_handlers)
        self._recursive = frozenset(
            handler.name for handler in status.runtime_handlers if handler.features.recursive_read_only_mounts
        )
        self._facts = tuple(
            HandlerFacts(h.name, h.features.recursive_read_only_mounts, h.features.user_namespaces)
            for h in sorted(status.runtime_handlers, key=lambda h: h.name)
        )
        has_features = status.HasField("features")
        self._supplemental_groups_policy = status.features.supplemental_groups_policy if has_features else None

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> str:
        return self._version

    @property
    def handlers(self) -> tuple[HandlerFacts, ...]:
        """The runtime's handlers; empty until they are known."""
        return self._facts

    @property
    def handler_names(self) -> frozenset[str]:
        """The names of the handlers, empty for the default one."""
        return self._names

    @property
    def supplemental_groups_policy(self) -> bool | None:
        """Whether the runtime supports supplementalGroupsPolicy (KEP-3619); None: not reported."""
        return self._supplemental_groups_policy

    @property
    def strict_groups(self) -> bool | None:
        """Whether pods may require strict supplemental groups; None before the runtime's first reply."""
        return bool(self._supplemental_groups_policy) if self._name else None

    def recursive_read_only(self, handler: str | None) -> bool:
        """Whether the runtime handler (None: the default) supports recursive read-only mounts."""
        return (handler or "") in self._recursive

    def user_namespaces(self, handler: str) -> bool | None:
        """Whether the runtime handler ("": the default) supports user namespaces; None if it is unknown or does not
        report it."""
        return next((facts.user_namespaces for facts in self._facts if facts.name == handler), None)
