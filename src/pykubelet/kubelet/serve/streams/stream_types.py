"""Protocol names, and the set of streams that a client requests."""

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
