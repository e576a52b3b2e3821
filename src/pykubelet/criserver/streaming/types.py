"""What a URL stands for, and how a client's streams look to those who serve them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from pykubelet.criserver.oci.command import Command


class Channel(IntEnum):
    """Streams by their number in the WebSocket protocols of Kubernetes."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


@dataclass(frozen=True, slots=True)
class Streams:
    """Which streams a client asked for."""

    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool


@dataclass(frozen=True, slots=True)
class Execution:
    """A command to run in a container."""

    container: str
    command: tuple[str, ...]
    streams: Streams


@dataclass(frozen=True, slots=True)
class AttachTo:
    """A container whose own streams are wanted. ``bundle`` holds conmon's socket."""

    container: str
    bundle: Path
    streams: Streams
    stdin_once: bool = True
    """The container's stdin ends with that of its first client."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Ports of a sandbox. ``netns`` None is the node's network. ``ports`` are for WebSocket clients, which cannot name
    any themselves."""

    sandbox: str
    netns: Path | None
    ports: tuple[int, ...] = ()

    @property
    def owner(self) -> str:
        """Of its blocking calls."""
        return f"forward/{self.sandbox}"


Target: TypeAlias = Execution | AttachTo | Forward


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal's, in characters."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """The client sends no more."""


FromClient: TypeAlias = bytes | Size | EndOfInput


class Client(Protocol):
    """The other end of an exec or attach."""

    def receive(self) -> AsyncIterator[FromClient]:
        """What the client sends, until it is gone."""
        ...

    async def gone(self) -> None:
        """Return when it is gone, though what it has sent was not all received, and nothing of it was for a while."""
        ...

    async def send(self, channel: Channel, data: bytes) -> None:
        """Give it output. ConnectionError when it is gone."""
        ...

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Tell how it ended and close; ``failure`` when there is no exit code to tell."""
        ...


class Executor(Protocol):
    """Runs commands in containers for the streaming server."""

    async def prepare(self, execution: Execution) -> tuple[list[str], Command, Path]:
        """The OCI runtime's command line to run, the command by which it is known, and the directory of its files,
        which is removed afterwards."""
        ...
