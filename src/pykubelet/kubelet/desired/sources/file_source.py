"""The file source: a manifest directory or a single manifest, watched with inotify.

inotify reports changes at once; every 20 s all files are read in any case, so that a lost event or a file system
without inotify only causes a delay. ``plan/effective_manifests.py`` and ``plan/pending_reads.py`` decide what is
effective while a file is broken or half written.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import Problem
from pykubelet.kubelet.desired.sources import disk
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.plan.effective_manifests import assemble
from pykubelet.kubelet.desired.sources.plan.pending_reads import ManifestChange, PendingFiles
from pykubelet.kubelet.desired.sources.source_types import (
    MAX_RETRY_SECONDS,
    RETRY_SECONDS,
    FileRecord,
    FileSourceConfig,
    ManifestState,
    SourceContent,
)
from pykubelet.kubelet.desired.sources.watch import watch
from pykubelet.kubelet.types.updates import Source

_log = logging.getLogger(__name__)


class FileSource:
    """A source that delivers the content of its manifests, after the first read and after each change.

    A missing directory counts as read and empty. One that cannot be read does not count as read: its previous content
    stays effective, and the agent does not clean up pods.
    """

    def __init__(self, *, config: FileSourceConfig, deliver: Callable[[SourceContent], None], clock: Clock) -> None:
        self._config = config
        self._deliver = deliver
        self._clock = clock
        self._rescan = config.rescan
        self._backup = Backup(config.backup) if config.backup else None
        self._pending = PendingFiles()
        self._records: Mapping[str, FileRecord] = {}
        self._delivered: SourceContent | None = None
        self._wakeup = Wakeup(clock)
        self._watched = asyncio.Event()
        """An attempt to watch the files has been made."""
        self._guard = Guard("sources.files", clock.monotonic)
        self._watches = Guard("sources.watch", clock.monotonic)
        self._rescan_at = -math.inf
        """Monotonic time of the next read of all files."""

    def reconfigure(self, rescan: Seconds) -> None:
        """Read all files now, and then with this interval."""
        self._rescan = rescan
        self.rescan_soon()

    async def run(self) -> None:
        """Watch and read the files until cancelled. What is being written when they are read first is known then."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="file-source-watch")
            await self._watched.wait()
            group.create_task(self._read(), name="file-source-read")

    def note(self, name: str, change: ManifestChange) -> None:
        """Record a change of a file."""
        record = self._records.get(name)
        known = record is not None and bool(record.wanted)
        self._pending.note(name, change, known=known, now=self._clock.monotonic())
        self._wakeup.wake()

    def waiting(self) -> frozenset[str]:
        """Return the changed files that have not been read yet, since they may be half written."""
        return self._pending.busy()

    def rescan_soon(self) -> None:
        """Read all files soon: any of them may have changed."""
        self._rescan_at = -math.inf
        self._wakeup.wake()

    async def _follow(self) -> None:
        backoff = Backoff(RETRY_SECONDS, MAX_RETRY_SECONDS)
        while True:
            with self._watches.item(str(self._config.path)) as attempt:
                await watch(self._config.path, self.note, self._read_all)
            self._watched.set()
            if attempt.error is None:
                backoff.reset("watch")
            else:  # meanwhile, changes are found by the periodic read
                await self._clock.sleep(backoff.next("watch", self._clock.monotonic()))

    def _read_all(self) -> None:
        self._watched.set()
        self.rescan_soon()

    async def _read(self) -> None:
        backoff = Backoff(RETRY_SECONDS, MAX_RETRY_SECONDS)
        while True:
            self._wakeup.clear()
            wait = min(self._rescan_at, self._pending.next_due()) - self._clock.monotonic()
            if wait > 0:
                await self._wakeup.sleep(wait)
                continue
            with self._guard.item(str(self._config.path)) as attempt:
                await self.rescan()
            if attempt.error is None:
                backoff.reset("read")
                delay = self._rescan
            else:
                self._fail(attempt.error)
                delay = backoff.next("read", self._clock.monotonic())
                self._rescan_at = math.inf
            self._rescan_at = min(self._rescan_at, self._clock.monotonic() + delay)

    async def rescan(self) -> None:
        """Read changed files, and deliver the content if it has changed. Raises Transient."""
        self._rescan_at = math.inf
        taken = self._pending.take(self._clock.monotonic())
        busy = self._pending.busy()
        records = await blocking.call(
            "manifests", disk.read_changed, self._config.path, self._records, busy, self._backup
        )
        for name, record in self._records.items():
            if name not in records and name not in taken.gone:
                # It may reappear soon; the same holds for a file that was busy and has vanished.
                records[name] = record
                if name not in self._pending.busy():
                    self.note(name, ManifestChange.VANISHED)
        first = self._delivered is None
        again = {name for name in taken.again if name in records and not records[name].kept}
        if again:  # their pods were removed, and are added again
            self._records = {name: record for name, record in self._records.items() if name not in again}
            self._publish()
        self._records = dict(sorted(records.items()))
        self._publish()
        if self._backup is not None and (taken.gone or first):
            origins = [record.manifest.origin for record in self._records.values()]
            await blocking.call("manifests", self._backup.keep_only, origins)

    def _publish(self) -> None:
        content = assemble(self._records.values(), Source.FILE, self._config.node_name)
        if content != self._delivered:
            self._delivered = content
            self._deliver(content)

    def _fail(self, error: Exception) -> None:
        """Deliver the problem; the previous content stays effective."""
        origin = str(self._config.path)
        state = ManifestState(Source.FILE, origin, problems=(Problem(origin, str(error)),))
        known = assemble(self._records.values(), Source.FILE, self._config.node_name).states
        self._deliver(SourceContent(Source.FILE, states=(*known, state), read=False))
        self._delivered = None
