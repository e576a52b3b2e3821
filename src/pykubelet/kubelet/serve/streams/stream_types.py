"""Protocol names, and what a client requests: the set of streams, and with which container and command."""

from typing import Final

from msgspec import Struct

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = f"SPDY/3.1+{FORWARD}"


class StreamSet(Struct, frozen=True):
    """The streams of an exec or attach session."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class StreamOptions(Struct, frozen=True):
    """Options of an exec or attach: container, command and streams."""

    container: str = ""
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def streams(self) -> StreamSet:
        """The streams of the session."""
        return StreamSet(self.stdin, self.stdout, self.stderr, self.tty)
