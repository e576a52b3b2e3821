"""The URL source: a manifest fetched every 20 s, unchanged ones recognised by their ETag or their bytes.

A failed request, an error status, an empty answer or a broken manifest takes nothing away: what the URL gave
before stays in force until it gives something good. To stop all its pods let it give a list without items.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.base.guard import Guard
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.manifest.parse import parse
from pykubelet.kubelet.desired.manifest.types import Manifest, fault_message
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.decide import accept, assemble, unreadable
from pykubelet.kubelet.desired.sources.interfaces import Fetch, Response
from pykubelet.kubelet.desired.sources.types import FileRecord, HttpSourceConfig, SourceContent
from pykubelet.kubelet.types.updates import Source

_log = logging.getLogger(__name__)
_OK: Final = 200
_NOT_MODIFIED: Final = 304


class HttpSource:
    """Delivers everything the URL wants, first when it has answered and then after each change."""

    def __init__(
        self, config: HttpSourceConfig, deliver: Callable[[SourceContent], None], clock: Clock, fetch: Fetch
    ) -> None:
        self._config = config
        self._deliver = deliver
        self._clock = clock
        self._fetch = fetch
        self._backup = Backup(config.backup) if config.backup else None
        self._origin = without_credentials(config.url)
        self._record: FileRecord | None = None
        self._etag = ""
        self._read = False
        self._delivered: SourceContent | None = None

    async def run(self) -> None:
        """Ask every period until cancelled."""
        guard = Guard("sources.http", self._clock.monotonic)
        try:
            while True:
                with guard.item(self._origin):
                    await self.look()
                await self._clock.sleep(self._config.period)
        finally:
            await self._fetch.close()

    async def look(self) -> None:
        """Ask once, and deliver if that changes anything."""
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
        elif not response.body:
            if self._record is None:
                self._record, self._read = accept(None, Manifest(self._origin), ""), True
            self._fail("gave an empty answer; to stop all its pods let it give a PodList without items")
        else:
            try:
                self._record = await blocking.call("manifests", self._parse, response.body)
            except Exception as error:  # a fault of ours takes nothing away
                self._fail(fault_message(error))
                return
            # A manifest with problems is asked for again in full, so that its problems are not forgotten.
            self._etag = "" if self._record.manifest.problems else response.etag
            self._read = True
            self._publish()

    def _parse(self, body: bytes) -> FileRecord:
        """The record after these bytes. Runs in a thread."""
        digest = hashlib.sha256(body).hexdigest()
        previous = self._record
        if previous is not None and previous.digest == digest:
            return previous
        manifest = parse(body, self._origin)
        if manifest.problems and previous is None and self._backup is not None:
            saved = self._backup.load(self._origin)
            previous = accept(None, parse(saved, self._origin), "") if saved is not None else None
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


def without_credentials(url: str) -> str:
    """The URL as it may be shown: without the user and password it may contain, other bytes with escapes."""
    parts = urlsplit(url)
    return printable(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
