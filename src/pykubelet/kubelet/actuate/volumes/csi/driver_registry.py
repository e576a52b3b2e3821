"""Registry of the CSI drivers on this node: they register by a socket in ``ROOT/plugins_registry`` or below it.

The protocol is that of the node-driver-registrar (`pluginregistration` v1). A driver is registered as long as its
socket exists.
"""

import asyncio
import logging
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import Message
from grpc.aio import AioRpcError
from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid, PykubeletError, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri.transport import GrpcTransport, UnaryCall, socket_path
from pykubelet.kubelet.actuate.volumes.csi.csi_client import CallOptions, CsiClient
from pykubelet.kubelet.actuate.volumes.csi.csi_errors import CsiFailed, DriverMissing
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiEvents
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.pb import plugin_registration_v1_pb2 as pb

_log = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)
_Identity = tuple[int, int, int]
"""Device, inode and modification time: another socket at the same path is another plugin."""

_KIND: Final = "CSIPlugin"
_SERVICE: Final = "pluginregistration.Registration"
_GET_INFO: Final = UnaryCall(_SERVICE, "GetInfo", "", pb.InfoRequest, pb.PluginInfo)
_NOTIFY: Final = UnaryCall(
    _SERVICE, "NotifyRegistrationStatus", "", pb.RegistrationStatus, pb.RegistrationStatusResponse
)
_TIMEOUT: Final[Seconds] = 10.0
_FIRST_DELAY: Final[Seconds] = 0.5
_MAX_DELAY: Final[Seconds] = 122.0
_RESCAN: Final[Seconds] = 20.0
_DIRECTORY_MODE: Final = 0o750


class _Plugin(Struct):
    """Plugin behind a registration socket."""

    path: Path
    identity: _Identity
    name: str = ""
    """Name of the driver, once it is registered."""
    client: CsiClient | None = None
    task: "asyncio.Task[None] | None" = None


class DriverRegistry:
    """Watches the registration directory and keeps the clients of registered drivers."""

    def __init__(self, *, directory: Path, clock: Clock, timeout: Seconds, events: CsiEvents) -> None:
        self._directory = directory
        self._events = events
        self._clock = clock
        self._timeout = timeout
        self._guard = Guard("csi.plugins", clock.monotonic)
        self._directories = Guard("csi.directory", clock.monotonic)
        self._plugins: dict[Path, _Plugin] = {}
        self._drivers: dict[str, CsiClient] = {}

    def client(self, name: str) -> CsiClient:
        """Return the client of a driver. Raises DriverMissing if it is not registered."""
        found = self._drivers.get(name)
        if found is None:
            raise DriverMissing(name)
        return found

    def names(self) -> frozenset[str]:
        """Names of the registered drivers."""
        return frozenset(self._drivers)

    def counts(self) -> dict[tuple[str, str], int]:
        """Registration sockets by path, existing and registered; state names as in the Go kubelet's metrics."""
        found = {(str(path), "desired_state_of_world"): 1 for path in self._plugins}
        there = (str(path) for path, plugin in self._plugins.items() if plugin.name)
        return found | {(path, "actual_state_of_world"): 1 for path in there}

    async def run(self) -> None:
        """Watch the directory until cancelled. Drivers stay registered in the cluster when the agent ends."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._follow(group)
        finally:
            for client in self._drivers.values():
                await client.close()
            self._drivers.clear()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        from asyncinotify import Inotify, Mask  # imported here to save memory where there are no drivers

        backoff = Backoff(_FIRST_DELAY, _RESCAN)
        ended = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED
        changes = Mask.CREATE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.DELETE_SELF | Mask.MOVE_SELF
        while True:
            with self._directories.item(str(self._directory)) as attempt:
                await blocking.call("plugins", self._directory.mkdir, _DIRECTORY_MODE, True, True)
                # Scanned before it is watched, since containers of root can use up root's inotify instances.
                await self._scan(group)
                with Inotify() as inotify:
                    watched: set[Path] = set()
                    while True:
                        # Sockets may have been created in a new directory before it was watched: scan again.
                        while more := await self._scan(group) - watched:
                            for directory in more:
                                with suppress(FileNotFoundError):
                                    inotify.add_watch(directory, changes)
                                    watched.add(directory)
                        if (await inotify.get()).mask & ended:
                            break
            if attempt.error is not None:
                await self._clock.sleep(backoff.next("", self._clock.monotonic()))

    async def _scan(self, group: asyncio.TaskGroup) -> set[Path]:
        """Register new sockets and unregister missing ones; return the existing directories."""
        found, directories = await blocking.call("plugins", _walk, self._directory)
        for path, plugin in list(self._plugins.items()):
            if found.get(path) != plugin.identity:
                del self._plugins[path]
                await self._end(plugin)
                self._register_other(plugin, group)
        for path, identity in found.items():
            if path not in self._plugins:
                plugin = self._plugins[path] = _Plugin(path, identity)
                self._begin(plugin, group)
        return directories

    def _begin(self, plugin: _Plugin, group: asyncio.TaskGroup) -> None:
        plugin.task = group.create_task(self._register_until_done(plugin), name=f"csi-driver {plugin.path.name}")

    def _register_other(self, gone: _Plugin, group: asyncio.TaskGroup) -> None:
        """Register another plugin with the name of the one in use, which has ended: an update was rolled back."""
        other = next((each for each in self._plugins.values() if gone.name and each.name == gone.name), None)
        if other is not None and self._drivers.get(gone.name) is gone.client:
            self._begin(other, group)

    async def _end(self, plugin: _Plugin) -> None:
        if plugin.task is not None and not plugin.task.done():
            plugin.task.cancel()
            await asyncio.wait([plugin.task])
        if not plugin.name or any(other.name == plugin.name for other in self._plugins.values()):
            return
        _log.info("CSI driver unregistered", extra={"driver": plugin.name})
        client = self._drivers.pop(plugin.name, None)
        self._events.removed(plugin.name)
        if client is not None:
            await client.close()

    async def _register_until_done(self, plugin: _Plugin) -> None:
        """Register the plugin behind a socket; retry until it succeeds or is not supported."""
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY)
        try:
            transport = GrpcTransport(socket_path(str(plugin.path)))
        except Invalid as error:
            _log.error("plugin registration rejected", extra={"socket": plugin.path, "error": str(error)})
            return
        try:
            while True:
                with self._guard.item(str(plugin.path)) as attempt:
                    await self._register(transport, plugin)
                if attempt.error is None or isinstance(attempt.error, Unsupported):
                    return
                await self._clock.sleep(backoff.next("", self._clock.monotonic()))
        finally:
            await transport.close()

    async def _register(self, transport: GrpcTransport, plugin: _Plugin) -> None:
        """Register a plugin and notify it of the result. Raises Unsupported if a retry is useless, else base errors."""
        info = await _call(transport, _GET_INFO, pb.InfoRequest())
        try:
            if info.type != _KIND:
                raise Unsupported(f"no handler registered for plugin type: {info.type} at socket {plugin.path}")
            csi_rules.check_versions(info.name, info.supported_versions)
            csi_rules.driver_name(info.name)
            plugin.client = await self._install(info.name, info.endpoint or str(plugin.path))
        except PykubeletError as error:
            text = f"plugin registration failed with err: {error}"
            await _call(transport, _NOTIFY, pb.RegistrationStatus(plugin_registered=False, error=text))
            raise
        plugin.name = info.name
        _log.info("CSI driver registered", extra={"driver": info.name, "endpoint": info.endpoint})
        self._events.registered(info.name)
        await _call(transport, _NOTIFY, pb.RegistrationStatus(plugin_registered=True))

    async def _install(self, name: str, endpoint: str) -> CsiClient:
        """Add the driver and report it to the cluster; a driver of the same name is replaced."""
        client = CsiClient.connect(endpoint, CallOptions(self._timeout, partial(self._events.called, name)))
        try:
            node = await client.info()
            if not node.node_id:
                raise Invalid(f"CSI driver {name}: NodeGetInfo returned no node id")
        except BaseException:
            await client.close()
            raise
        before = self._drivers.pop(name, None)
        self._drivers[name] = client
        self._events.installed(name, node)
        if before is not None:
            await before.close()
        return client


async def _call(transport: GrpcTransport, call: UnaryCall[_Request, _Reply], request: _Request) -> _Reply:
    try:
        return await transport.unary(call, request, _TIMEOUT)
    except AioRpcError as error:
        raise CsiFailed(error.code(), error.details() or "") from error


def _walk(top: Path) -> tuple[dict[Path, _Identity], set[Path]]:
    """Find the sockets in the directory and below, and all directories; hidden ones and links are ignored, as upstream.

    Raises OSError if the directory itself cannot be read.
    """
    sockets: dict[Path, _Identity] = {}
    directories, todo = {top}, [top]
    while todo:
        directory = todo.pop()
        try:
            paths = list(directory.iterdir())
        except OSError:
            if directory == top:
                raise
            directories.discard(directory)  # removed since it was listed, or not readable
            continue
        for path in paths:
            with suppress(FileNotFoundError):
                info = path.lstat()
                if path.name.startswith("."):
                    continue
                if stat.S_ISSOCK(info.st_mode):
                    sockets[path] = (info.st_dev, info.st_ino, info.st_mtime_ns)
                elif stat.S_ISDIR(info.st_mode):
                    directories.add(path)
                    todo.append(path)
    return sockets, directories
