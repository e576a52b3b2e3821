"""The requests behind streaming URLs, and the interface of clients."""

from collections.abc import AsyncIterator
from enum import IntEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct


class Channel(IntEnum):
    """Streams by their channel number in the WebSocket protocols of Kubernetes."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class Streams(Struct, frozen=True):
    """The streams that a client requested."""

    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool


class Execution(Struct, frozen=True):
    """A command to run in a container."""

    container: str
    command: tuple[str, ...]
    streams: Streams


class StreamControl(Protocol):
    """Control of a container's streams besides reading and writing, for an attached client."""

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the container's terminal; no error if it has ended."""
        ...

    async def end_input(self) -> None:
        """Close the container's stdin; called after the connection to conmon was shut down."""
        ...


class AttachTarget(Struct, frozen=True):
    """A container to attach to. ``bundle`` is the directory with conmon's socket."""

    container: str
    bundle: Path
    streams: Streams
    control: StreamControl
    stdin_once: bool = True
    """Whether the container's stdin is closed when the input of its first client ends."""


class Forward(Struct, frozen=True):
    """Ports of a sandbox to forward. ``netns`` None means the node's network.

    ``ports`` are for WebSocket clients, which cannot name any themselves.
    """

    sandbox: str
    netns: Path | None
    ports: tuple[int, ...] = ()

    @property
    def owner(self) -> str:
        """The owner of the blocking calls for this request."""
        return f"forward/{self.sandbox}"


Target: TypeAlias = Execution | AttachTarget | Forward


class Size(Struct, frozen=True):
    """The size of a terminal in characters."""

    width: int
    height: int


class EndOfInput(Struct, frozen=True):
    """The client sends no more."""


FromClient: TypeAlias = bytes | Size | EndOfInput


class Client(Protocol):
    """The client of an exec or attach."""

    def receive(self) -> AsyncIterator[FromClient]:
        """Yield what the client sends, until it has gone."""
        ...

    async def gone(self) -> None:
        """Return when the client has gone, although data from it is still unread, and none was read for a while."""
        ...

    async def send(self, channel: Channel, data: bytes) -> None:
        """Send output. Raises ConnectionError if the client has gone."""
        ...

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Send the exit code, or ``failure`` if there is no exit code, and close."""
        ...
