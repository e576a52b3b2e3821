"""Paths of the parts of a sandbox: its pinned namespaces, files and infra bundle."""

from pathlib import Path

from msgspec import Struct

from pykubelet.criserver.netns import NamespaceKind, PinnedNamespaces
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.plan.requests import namespace_options, namespaces, own_network
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import SandboxID, UserNamespace


class SandboxLayout(Struct, frozen=True, kw_only=True):
    """The paths of sandboxes."""

    namespaces: PinnedNamespaces
    directory: Path
    """The parent of the sandboxes' directories."""

    def namespace_paths(self, sandbox: Sandbox) -> dict[str, str]:
        """The paths of its pinned namespaces, by kind."""
        kinds = namespaces(sandbox.config).kinds
        return {kind.value: str(self.namespaces.path(sandbox.id, kind)) for kind in kinds}

    def user_namespace(self, sandbox: Sandbox) -> UserNamespace | None:
        """The pod's own user namespace, if it has one."""
        ids = id_map(namespace_options(sandbox.config))
        if ids is None:
            return None
        return UserNamespace(str(self.namespaces.path(sandbox.id, NamespaceKind.USER)), ids)

    def netns(self, sandbox: Sandbox) -> Path | None:
        """The path of its network namespace; None: it uses the node's."""
        return self.namespaces.path(sandbox.id, NamespaceKind.NETWORK) if own_network(sandbox.config) else None

    def files(self, sandbox: SandboxID) -> SandboxFiles:
        """The files of a sandbox."""
        return SandboxFiles(self.directory / sandbox)

    def infra_bundle(self, sandbox: SandboxID) -> Path:
        """The bundle of a sandbox's infra process."""
        return self.directory / sandbox / "infra"


def owner_of(sandbox: SandboxID) -> str:
    """The owner of blocking calls about a sandbox."""
    return f"sandbox/{sandbox}"
