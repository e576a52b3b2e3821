"""The URL source: a manifest fetched every 20 s, recognized as unchanged by its ETag or its bytes.

A failed request, an error status, an empty response or a broken manifest removes nothing: the previous content stays
effective until the next valid one. To stop all its pods, return a list without items.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Transient
from pykubelet.base.text import without_credentials
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import fault_message
from pykubelet.kubelet.desired.manifest.parse import parse
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.plan.effective_manifests import accept, assemble, unreadable
from pykubelet.kubelet.desired.sources.source_interfaces import Fetch, Response
from pykubelet.kubelet.desired.sources.source_types import FileRecord, HttpSourceConfig, SourceContent
from pykubelet.kubelet.types.updates import Source

_log = logging.getLogger(__name__)
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_EMPTY: Final = "gave an empty answer; to stop all its pods let it give a PodList without items"


class UrlSource:
    """A source that delivers the content of a URL, after the first response and after each change."""

    def __init__(
        self, *, config: HttpSourceConfig, deliver: Callable[[SourceContent], None], clock: Clock, fetch: Fetch
    ) -> None:
        self._config = config
        self._deliver = deliver
        self._clock = clock
        self._period = config.period
        self._wakeup = Wakeup(clock)
        self._fetch = fetch
        self._backup = Backup(config.backup) if config.backup else None
        self._origin = without_credentials(config.url)
        self._record: FileRecord | None = None
        self._etag = ""
        self._read = False
        self._delivered: SourceContent | None = None

    def reconfigure(self, period: Seconds) -> None:
        """Fetch now, and then with this period."""
        self._period = period
        self._wakeup.wake()

    async def run(self) -> None:
        """Fetch every period until cancelled."""
        guard = Guard("sources.http", self._clock.monotonic)
        try:
            while True:
                self._wakeup.clear()
                with guard.item(self._origin):
                    await self.poll()
                await self._wakeup.sleep(self._period)
        finally:
            await self._fetch.close()

    async def poll(self) -> None:
        """Fetch once, and deliver the content if it has changed."""
        headers = self._config.headers
        if self._etag:
            headers += (("If-None-Match", self._etag),)
        try:
            response = await self._fetch.get(self._config.url, headers, self._config.timeout)
        except Transient as error:
            self._fail(str(error))
            return
        await self._take(response)

    async def _take(self, response: Response) -> None:
        if response.status == _NOT_MODIFIED and self._record is not None:
            return
        if response.status != _OK:
            self._fail(f"answered with status {response.status}")
        else:
            try:
                self._record = await blocking.call("manifest-url", self._parse, response.body)
            except Exception as error:  # a defect of the agent must not remove pods
                self._fail(fault_message(error))
                return
            # A manifest with problems is fetched again without the ETag, so that its problems stay reported.
            self._etag = "" if self._record.manifest.problems else response.etag
            self._read = True
            self._publish()

    def _parse(self, body: bytes) -> FileRecord:
        """Return the record after these bytes. Runs in a thread."""
        digest = hashlib.sha256(body).hexdigest()
        previous = self._record
        if previous is not None and previous.digest == digest:
            return previous
        manifest = parse(body, self._origin)
        if (manifest.problems or manifest.empty) and previous is None and self._backup is not None:
            saved = self._backup.load(self._origin)
            previous = accept(None, parse(saved, self._origin), "") if saved is not None else None
        if manifest.empty:
            return unreadable(previous, self._origin, _EMPTY)
        record = accept(previous, manifest, digest)
        if self._backup is not None and not record.manifest.problems:
            self._backup.save(self._origin, body)
        return record

    def _fail(self, reason: str) -> None:
        self._etag = ""
        self._record = unreadable(self._record, self._origin, reason)
        self._publish()

    def _publish(self) -> None:
        if self._record is None:
            return
        content = assemble([self._record], Source.HTTP, self._config.node_name)
        if not self._read:
            content = SourceContent(Source.HTTP, states=content.states, read=False)
        if content != self._delivered:
            self._delivered = content
            self._deliver(content)
