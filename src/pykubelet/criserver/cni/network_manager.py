"""Attaches sandboxes to the pod network and detaches them."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from asyncinotify import Mask
from msgspec import Struct

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.shared_lock import SharedLock
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.path_watch import PathWatch
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.attachment_records import AttachmentRecords, pinned
from pykubelet.criserver.cni.garbage import GarbageCollection
from pykubelet.criserver.cni.masquerade import FRESH, Firewall
from pykubelet.criserver.cni.network_files import FoundNetworks, NetworkFiles
from pykubelet.criserver.cni.network_status import NetworkStatus
from pykubelet.criserver.cni.network_types import (
    Attachment,
    AttachRequest,
    FurtherNetwork,
    Json,
    NetworkList,
    PodAddresses,
)
from pykubelet.criserver.cni.plan.network_spec import (
    addresses,
    busy_plugins,
    candidates,
    check_arguments,
    default_network,
    plugin_input,
    supports_check,
    supports_status,
)
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.types import SandboxID

_log = logging.getLogger(__name__)
_DEFAULT_FILE = "87-pykubelet.conflist"
_CHANGES = Mask.CREATE | Mask.DELETE | Mask.CLOSE_WRITE | Mask.MOVED_FROM | Mask.MOVED_TO
_LOOK_EVERY: Seconds = 10.0
_STATUS_EVERY: Seconds = 5.0


class NetworkConfig(Struct, frozen=True):
    """Configuration of the pod network.

    ``attachments`` must be on a disk. If ``default_bridge`` is empty, no default network is written.
    """

    conf_dir: Path
    attachments: Path
    default_bridge: str = ""
    default_subnet: str = ""
    ipam_dir: Path = Path("/var/lib/cni/networks")
    netns_of: Callable[[SandboxID], Path] = Path
    """Returns the path to which the network namespace of a sandbox is pinned."""
    collect_garbage: bool = False
    """Whether plugins are told which attachments are in use, and release all others (GC)."""
    max_networks: int = 1
    """Number of networks that a pod gets, of the first ones; 0: all."""
    pod_addresses: bool = False
    """Whether pods may choose their addresses, and so can take those of other pods."""
    clock: Clock = SystemClock()


class NetworkManager:
    """The pod networks of this node: the first valid configurations in the configuration directory, usually one."""

    def __init__(self, config: NetworkConfig, plugins: Plugins) -> None:
        self._config = config
        self._plugins = plugins
        self._firewall = Firewall(config.clock, plugins.marks)
        self._current: tuple[NetworkList, ...] = ()
        self._why = "no network configuration was read yet"
        self._files = NetworkFiles()
        self._through_links = False
        """Whether symbolic links led to the directory when it was last there."""
        self._found = FoundNetworks({}, ())
        self._records = AttachmentRecords(config.attachments)
        self._status = NetworkStatus(plugins=plugins)
        self._status_due = Wakeup(config.clock)
        self._attaching = SharedLock()
        self._detaching: WeakValueDictionary[SandboxID, asyncio.Lock] = WeakValueDictionary()

    def problem(self) -> str:
        """The reason why the pod network is not ready; empty if it is."""
        return self._status.problem(self._current) if self._current else self._why

    async def start(self) -> None:
        """Read the configuration; write the default one if the directory has none."""
        await blocking.call("network", self._prepare)
        await self._reload()

    async def run(self) -> None:
        """Follow changes of the configuration directory, and ensure that the firewall rules exist, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_directory(), name="network-directory")
            group.create_task(self._keep_firewall(), name="network-firewall")

    async def _follow_directory(self) -> None:
        """Follow changes of the configuration directory. If it is removed, it is created again, empty.

        If symbolic links lead to it, it is not: one that is missing may be about to be made again.
        If it cannot be watched (root's inotify instances are shared with containers), it is read periodically.
        """
        guard = Guard("network.configuration", self._config.clock.monotonic, maximum=_LOOK_EVERY)
        while True:
            with guard.item("watch"):
                if not self._through_links:
                    await blocking.call("network", partial(self._config.conf_dir.mkdir, parents=True, exist_ok=True))
                await self._follow()
            if delay := guard.delay("watch"):
                with guard.item("look"):
                    await self._reload()
                await self._config.clock.sleep(delay)

    async def _keep_firewall(self) -> None:
        """Ensure that the firewall rules exist, of pods that were there before as well.

        Other programs remove all rules now and then, such as a service that loads its own.
        """
        guard = Guard("network.firewall", self._config.clock.monotonic)
        while True:
            for rule in [network.masquerade for network in self._current if network.masquerade is not None]:
                with guard.item(rule.bridge):
                    await self._firewall.ensure(rule)
            await self._config.clock.sleep(FRESH)

    async def follow_status(self) -> None:
        """Ask the plugins periodically, and when the network has changed, whether they are ready, for ever.

        Periodically only if there are plugins that can tell.
        """
        guard = Guard("network.status", self._config.clock.monotonic, maximum=_LOOK_EVERY)
        while True:
            self._status_due.clear()
            with guard.item("status"):
                if self._current:
                    await self._status.ask(self._current)
            await self._status_due.sleep(_STATUS_EVERY if any(map(supports_status, self._current)) else None)

    async def collect_garbage(self, used: Callable[[], Iterable[SandboxID] | None]) -> None:
        """Have the plugins release what no sandbox uses, for ever, if the configuration wants it.

        ``used`` returns the sandboxes that must keep their addresses even without a record; None if they are not all
        known now.
        """
        if self._config.collect_garbage:
            collection = GarbageCollection(
                plugins=self._plugins, records=self._records, lock=self._attaching, clock=self._config.clock
            )
            await collection.run(lambda: self._current, used)

    async def _follow(self) -> None:
        """Follow changes until the path leads elsewhere. Raises Transient if it cannot be watched or read for now."""
        directory, elsewhere = self._config.conf_dir, False
        async with PathWatch("network", _CHANGES, directories=(directory,)) as watched:
            if not watched.lacks_directory:
                self._through_links = watched.through_links
            await self._reload_completely()
            while not elsewhere:
                elsewhere = (await watched.next()).elsewhere
                await self._reload_completely()
        if not await blocking.call("network", directory.is_dir):
            _log.warning("network configuration directory removed", extra={"directory": str(directory)})

    async def _reload_completely(self) -> None:
        await self._reload()
        if self._found.unread:
            raise Transient(f"network configuration not read completely: {'; '.join(self._found.problems)}")

    def held(self) -> list[SandboxID]:
        """The sandboxes that are, or may still be, attached to a network. Raises the errors of ``base.errors``."""
        return self._records.held()

    async def attach(self, request: AttachRequest) -> PodAddresses:
        """Call ADD of each plugin of each network. On failure the sandbox is detached, or remains in ``held``.

        Raises Transient if there is no network yet or a plugin fails, Invalid if the pod requests an address and pods
        may not do so.
        """
        if (request.ips or request.mac) and not self._config.pod_addresses:
            raise Invalid(
                f"pod {request.namespace}/{request.pod} asks for an address by its annotations, which this node does "
                "not allow; remove them, or set pod_addresses of cni in the configuration of the runtime server"
            )
        networks, why = self._current, self._why
        if request.conf_dir:
            # Of a runtime handler: read for each of its pods, so nothing has to follow its changes.
            found = await self._files.read(Path(request.conf_dir))
            networks, why = found.in_use(self._most(request)), found.why
        if not networks:
            raise Transient(f"the network is not ready: {why}")
        check_arguments(request)
        async with self._attaching.shared():
            return await self._attach(networks, request)

    async def _attach(self, networks: Sequence[NetworkList], request: AttachRequest) -> PodAddresses:
        first, others = networks[0], networks[1:]
        attachment = Attachment(request, first, None, tuple(FurtherNetwork(network) for network in others))
        await self._records.remember(attachment)
        try:
            results = [await self._add(part.network, part.request) for part in attachment.parts()]
            # Only the first network's: the API takes one address of each family.
            found = addresses(results[0], request.interface)
            if not found:
                raise Transient(f"network {first.name}: the result of its CNI plugins has no address for the pod")
            further = tuple(map(FurtherNetwork, others, results[1:]))
            await self._records.remember(Attachment(request, first, results[0], further))
        except BaseException:
            with suppress(PykubeletError, OSError):
                await shielded(lambda: self._detach(request.sandbox, None))
            raise
        return PodAddresses(found)

    async def check(self, sandbox: SandboxID) -> None:
        """Call CHECK of each plugin. Raises Transient, with the plugin's message, if the attachment has changed."""
        attachment = await self._records.load(sandbox)
        for part in attachment.parts() if attachment is not None else ():
            if not supports_check(part.network):
                continue
            for plugin in busy_plugins(part.network, part.request):
                document = plugin_input(part.network, plugin, part.request, part.result)
                await self._plugins.call("CHECK", part.request, part.request.netns, document)

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        """Call DEL of each plugin of each network, last first. Idempotent: no error if the sandbox is not attached.

        If a plugin fails, the other networks are detached all the same, the attachment is kept for a retry, and the
        error is raised. ``known`` is the request of a
        sandbox that has an address; it replaces an attachment record that is lost or damaged.
        """
        async with self._attaching.shared():
            await self._detach(sandbox, known)

    async def _detach(self, sandbox: SandboxID, known: AttachRequest | None) -> None:
        # Retries of the server may coincide with a client's call, and some plugins fail if they run concurrently.
        async with self._detaching.setdefault(sandbox, asyncio.Lock()):
            await self._release(sandbox, known)
            await self._records.forget(sandbox)

    async def _release(self, sandbox: SandboxID, known: AttachRequest | None) -> None:
        try:
            found = await self._records.load_to_forget(sandbox)
        except Invalid as error:
            _log.error(
                "attachment record damaged: releasing the address without it",
                extra={"sandbox": sandbox, "error": str(error)},
            )
            netns = str(self._config.netns_of(sandbox))
            await self._release_unknown(known or AttachRequest(sandbox, netns, "", "", ""))
        else:
            if found is not None:
                attachment, netns = found
                parts = [(part, busy_plugins(part.network, part.request)) for part in attachment.parts()]
                await self._delete_all(parts, netns)
            elif known is not None:
                await self._release_unknown(known)

    async def _delete_all(self, parts: Sequence[tuple[Attachment, Sequence[Json]]], netns: str) -> None:
        """Call DEL of all networks, last first: one that fails keeps no other's address reserved.

        Raises the error of the one that failed, or Transient with those of several.
        """
        errors: list[PykubeletError] = []
        for part, plugins in reversed(parts):
            try:
                await self._delete(part, plugins, netns)
            except PykubeletError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise Transient("; ".join(map(str, errors)))

    async def _delete(self, attachment: Attachment, plugins: Sequence[Json], netns: str) -> None:
        request, network = attachment.request, attachment.network
        for plugin in reversed(plugins):
            document = plugin_input(network, plugin, request, attachment.result)
            await self._plugins.call("DEL", request, netns, document)

    async def _release_unknown(self, request: AttachRequest) -> None:
        """Call DEL for all configured networks, since those of the attachment are unknown.

        Only a failure of a network in use counts. Raises Transient if there is none or one fails; the address stays
        reserved, and the caller retries.
        """
        found = await self._files.read(Path(request.conf_dir or self._config.conf_dir))
        networks = list(found.networks.values())
        if not networks:
            raise Transient(f"the address of sandbox {request.sandbox} cannot be released: {found.why}")
        used = found.in_use(self._most(request))
        netns = await blocking.call(f"sandbox/{request.sandbox}", pinned, request.netns)
        for network in [each for each in networks if not any(each is other for other in used)]:
            with suppress(Transient, Invalid):
                await self._delete(Attachment(request, network), network.plugins, netns)
        parts = [(Attachment(request.on(index), each), each.plugins) for index, each in enumerate(used)]
        await self._delete_all(parts, netns)

    def _most(self, request: AttachRequest) -> int:
        return request.max_networks or self._config.max_networks

    async def _add(self, network: NetworkList, request: AttachRequest) -> Json:
        result: Json | None = None
        if network.masquerade is not None:
            await self._firewall.ensure(network.masquerade)
        for plugin in busy_plugins(network, request):
            document = plugin_input(network, plugin, request, result)
            result = await self._plugins.call("ADD", request, request.netns, document)
        assert result is not None, "a network has at least one plugin"
        return result

    def _prepare(self) -> None:
        config = self._config
        self._records.prepare()
        config.conf_dir.mkdir(parents=True, exist_ok=True)
        if config.default_bridge and not candidates(path.name for path in config.conf_dir.iterdir()):
            limits = self._plugins.has("bandwidth")
            document = default_network(
                config.default_bridge, config.default_subnet, str(config.ipam_dir), limits=limits
            )
            write_atomic(config.conf_dir / _DEFAULT_FILE, json.dumps(document, indent=2).encode(), 0o644)
            _log.info(
                "no network configuration found: wrote the default one", extra={"directory": str(config.conf_dir)}
            )

    async def reload(self) -> None:
        """Read the configuration directory now."""
        await self._reload()

    def described(self) -> dict[str, object]:
        """The networks in force, for the status."""
        return {"directory": str(self._config.conf_dir), "networks": self._found.described(self._config.max_networks)}

    def problems(self) -> list[str]:
        """Return the errors of configuration files; of a file that was valid before, the former version is in force."""
        return list(self._found.problems)

    async def _reload(self) -> None:
        former, found = self._found, await self._files.read(self._config.conf_dir)
        networks, why = found.in_use(self._config.max_networks), found.why
        for problem in found.problems:
            if problem not in former.problems:
                _log.error("network configuration file refused", extra={"error": problem})
        if networks != self._current or why != self._why:
            self._status_due.wake()
            if networks:
                _log.info("pod network in use", extra={"network": ", ".join(each.name for each in networks)})
            else:
                _log.warning("pod network not ready", extra={"why": why})
        self._found, self._current, self._why = found, networks, why
