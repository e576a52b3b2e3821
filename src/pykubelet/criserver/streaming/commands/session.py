"""A command in a container, with its streams and a client; how the command is run is a matter of the subclasses."""

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress

from pykubelet.base.units import Seconds
from pykubelet.criserver.streaming.pipes import PipeReader, PipeWriter
from pykubelet.criserver.streaming.streaming_types import Channel, Client, EndOfInput, Size, Streams

_log = logging.getLogger(__name__)
_DRAIN: Seconds = 2.0
_RUNTIME_END: Seconds = 10.0
"""Time that the runtime has to end after its command."""


class ExecSession(ABC):
    """One command with its pipes or its terminal."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._outputs: tuple[tuple[PipeReader, Channel], ...] = ()
        """Set by ``start``, as the following two."""
        self._stdin: PipeWriter | None = None
        self._ended: asyncio.Future[int] | None = None
        """Its result is the exit code."""

    @abstractmethod
    async def start(self) -> None:
        """Start the command."""

    @abstractmethod
    async def failure(self) -> str:
        """The runtime's error, if the command did not start; else empty."""

    @abstractmethod
    async def _resize(self, size: Size) -> None:
        """Set the size of its terminal."""

    @abstractmethod
    async def _end_input(self) -> None:
        """Close its stdin."""

    @abstractmethod
    async def _command_ended(self) -> None:
        """Return when the command itself has ended, although its runtime may go on."""

    @abstractmethod
    async def _kill(self) -> None:
        """Kill the command with its descendants."""

    @abstractmethod
    async def _remove(self) -> None:
        """Remove its files."""

    def _begun(self) -> None:
        """Take note of the first output: the command certainly runs."""
        return

    async def serve(self, client: Client) -> int | None:
        """Copy the streams. Returns the exit code, or None if the client has gone before the end."""
        assert self._ended is not None
        pumps = {asyncio.ensure_future(self._pump(pipe, channel, client)) for pipe, channel in self._outputs}
        listen = asyncio.ensure_future(self._listen(client))
        gone = asyncio.ensure_future(client.gone())
        end = asyncio.ensure_future(self._until_end())
        waiting = {end, listen, gone, *pumps}
        try:
            while not self._ended.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if listen in done or gone in done or _client_gone(done & pumps):
                    return None
            await self._drain(pumps)
            return self._ended.result()
        finally:
            for task in (end, listen, gone, *pumps):
                task.cancel()
            await asyncio.gather(end, listen, gone, *pumps, return_exceptions=True)
            if self._stdin and not self._streams.terminal:
                await self._end_input()

    async def end(self) -> None:
        """Wait for the end of the command and clean up."""
        try:
            if self._ended is not None:
                await self._ended
        finally:
            self._close()
            await self._remove()

    async def outlive(self, unwanted: asyncio.Event) -> None:
        """Wait for the end of the command without a client; kill it when ``unwanted`` is set."""
        goes_on = asyncio.ensure_future(self._until_runtime_ended())
        stop = asyncio.ensure_future(unwanted.wait())
        try:
            await asyncio.wait({goes_on, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (goes_on, stop):
                task.cancel()
            await asyncio.gather(goes_on, stop, return_exceptions=True)
        if goes_on.cancelled() or not goes_on.result():
            await self.kill()
        else:
            await self.end()

    async def kill(self) -> None:
        """Kill the command and clean up."""
        await self._kill()
        if self._ended is not None:
            self._ended.cancel()
        with suppress(asyncio.CancelledError):
            await self.end()

    async def _until_runtime_ended(self) -> bool:
        """Wait for the end of the runtime's process. Returns False if it keeps running after its command has ended."""
        await self._command_ended()
        # The runtime would wait for ever for a reader of the rest of the output.
        self._close()
        try:
            async with asyncio.timeout(_RUNTIME_END):
                await self._until_end()
        except TimeoutError:
            _log.warning("OCI runtime still runs after its command has ended: killing it")
            return False
        return True

    def _close(self) -> None:
        if self._stdin:
            self._stdin.close()
        for pipe, _ in self._outputs:
            pipe.close()

    async def _until_end(self) -> None:
        assert self._ended is not None
        await asyncio.shield(self._ended)

    async def _drain(self, pumps: "set[asyncio.Task[None]]") -> None:
        """Copy the rest of the output, but not for ever: a process left by the command may hold the pipes open."""
        while pumps:
            done, pumps = await asyncio.wait(pumps, timeout=_DRAIN)
            if not done and any(pipe.waiting for pipe, _ in self._outputs):
                return

    async def _listen(self, client: Client) -> None:
        async for what in client.receive():
            match what:
                case EndOfInput():
                    if not self._streams.terminal:
                        await self._end_input()
                case Size():
                    await self._resize(what)
                case _ if self._streams.stdin and self._stdin is not None:
                    with suppress(OSError):
                        await self._stdin.write(what)

    async def _pump(self, pipe: PipeReader, channel: Channel, client: Client) -> None:
        """Copy a pipe to a channel."""
        if data := await pipe.read():
            self._begun()
        while data:
            await client.send(channel, data)
            data = await pipe.read()


def _client_gone(pumps: "set[asyncio.Task[None]]") -> bool:
    return any(pump.exception() is not None for pump in pumps)
