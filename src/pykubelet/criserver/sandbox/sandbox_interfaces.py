"""The protocols of other components that sandboxes use."""

from collections.abc import Callable, Iterable
from typing import Protocol

from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.container.container_interfaces import ImageFacts, RootFilesystems
from pykubelet.criserver.types import SandboxID


class Containers(Protocol):
    """The containers in a sandbox."""

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill all containers of a sandbox."""
        ...

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove all containers of a sandbox; their records are deleted with the sandbox's."""
        ...


class PodNetwork(Protocol):
    """The pod network."""

    async def attach(self, request: AttachRequest) -> PodAddresses:
        """Attach a network namespace; it gets addresses."""
        ...

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        """Detach and release the addresses; on an error, retry. ``known``: the attach request, if it has addresses."""
        ...

    async def check(self, sandbox: SandboxID) -> None:
        """Check that it is still attached (CNI CHECK); an error says what is missing."""
        ...

    def held(self) -> list[SandboxID]:
        """The sandboxes that still have an attachment."""
        ...

    async def collect_garbage(self, used: Callable[[], Iterable[SandboxID] | None]) -> None:
        """Have addresses released that no sandbox uses, for ever; ``used`` returns None if they are not all known."""
        ...


class PauseImages(RootFilesystems, Protocol):
    """The source of the pause image of infra processes."""

    async def ensure(self, reference: str) -> ImageFacts:
        """Return the image, pulling it if it is not present. Errors as of a pull."""
        ...
