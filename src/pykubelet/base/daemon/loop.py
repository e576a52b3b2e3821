"""The event loop of the daemons: asyncio's loop, in which a slow name server delays only the names that it serves.

asyncio looks names up in its default executor, whose few threads all callers share. Names come from pods too (hosts of
probes and hooks, registries of images): a handful of names that no name server answers would keep the agent from
finding its API server. Here the lookups of each name have their own threads (``blocking``).
"""

import asyncio
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_LOOKUP: Final[Seconds] = 30.0
"""The C library gives up after 10 s for each name server that is not responding, with three of them at most."""


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop whose name lookups do not delay each other: ``asyncio.Runner(loop_factory=DaemonLoop)``."""

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Look up the addresses of a name. Raises ``gaierror`` if it has none or no name server answers within 30 s."""
        lookup = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        try:
            return await blocking.call(f"name/{host!s}", lookup, deadline=_LOOKUP)
        except Transient as error:
            raise socket.gaierror(socket.EAI_AGAIN, f"no answer about the name {host!s}: {error}") from error
        except UnicodeError as error:
            # A pod's author can give a name with an empty label or one of over 63 characters. Callers expect OSError.
            raise socket.gaierror(socket.EAI_NONAME, f"{host!r} is not a valid host name: {error}") from error


def run_daemon(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine like ``asyncio.run``, in a ``DaemonLoop``."""
    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        return runner.run(main)
