"""Builds the configured sources and passes on their content: objects first, then the pods that use them."""

import asyncio
from pathlib import Path

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.sources.file_source import FileSource
from pykubelet.kubelet.desired.sources.http_fetch import AiohttpFetch
from pykubelet.kubelet.desired.sources.mux import PodMux
from pykubelet.kubelet.desired.sources.source_interfaces import Fetch, ObjectSink, ProblemSink
from pykubelet.kubelet.desired.sources.source_types import (
    RESCAN_SECONDS,
    FileSourceConfig,
    HttpSourceConfig,
    SourceContent,
    SourcePeriods,
)
from pykubelet.kubelet.desired.sources.url_source import UrlSource
from pykubelet.kubelet.types.updates import Source


class SourcesConfig(Struct, frozen=True):
    """The sources of manifests; None: not configured."""

    files: FileSourceConfig | None = None
    http: HttpSourceConfig | None = None

    @property
    def periods(self) -> SourcePeriods:
        """The periods of the configured sources."""
        found = ((self.files.rescan if self.files else None), (self.http.period if self.http else None))
        return SourcePeriods(*(RESCAN_SECONDS if each is None else each for each in found))

    def names(self) -> frozenset[Source]:
        """Return the configured sources, which a PodMux must hear before it is ready."""
        given = ((Source.FILE, self.files), (Source.HTTP, self.http))
        return frozenset(source for source, config in given if config is not None)


class Sources:
    """The sources of manifests. An unexpected exception in a source ends :meth:`run`."""

    def __init__(
        self,
        *,
        config: SourcesConfig,
        mux: PodMux,
        objects: ObjectSink,
        states: ProblemSink,
        clock: Clock,
        fetch: Fetch | None = None,
    ) -> None:
        """``fetch`` is for tests."""
        self._periods = config.periods
        self._mux = mux
        self._objects = objects
        self._states = states
        self._files: FileSource | None = None
        if config.files is not None:
            self._files = FileSource(config=config.files, deliver=self.deliver, clock=clock)
        self._http: UrlSource | None = None
        if config.http is not None:
            self._http = UrlSource(config=config.http, deliver=self.deliver, clock=clock, fetch=fetch or AiohttpFetch())

    def reconfigure(self, periods: SourcePeriods) -> None:
        """Read the sources whose period has changed now, and then with the new one."""
        before, self._periods = self._periods, periods
        if self._files is not None and periods.files != before.files:
            self._files.reconfigure(periods.files)
        if self._http is not None and periods.http != before.http:
            self._http.reconfigure(periods.http)

    async def run(self) -> None:
        """Run all sources until cancelled; returns at once if there are none."""
        async with asyncio.TaskGroup() as group:
            if self._files is not None:
                group.create_task(self._files.run(), name="source-file")
            if self._http is not None:
                group.create_task(self._http.run(), name="source-http")

    def deliver(self, content: SourceContent) -> None:
        """Pass on the full content of a source."""
        self._states.replace(content.source, content.states)
        if content.read:
            self._objects.replace(content.source, content.objects)
            self._mux.set(content.source, content.pods)


def source_periods(settings: Settings) -> SourcePeriods:
    """Convert the configuration's fields about the periods of the sources."""
    config = settings.config
    return SourcePeriods(settings.seconds(config.file_check_frequency), settings.seconds(config.http_check_frequency))


def sources_config(settings: Settings) -> SourcesConfig:
    """Return the configured sources; copies of valid manifests are written below the root directory."""
    config = settings.config
    backup = settings.root_dir / "manifests"
    files = http = None
    if config.static_pod_path:
        files = FileSourceConfig(
            Path(config.static_pod_path),
            settings.node_name,
            settings.seconds(config.file_check_frequency),
            backup / "file",
        )
    if config.static_pod_url:
        headers = tuple((name, value) for name, values in config.static_pod_url_header.items() for value in values)
        period = settings.seconds(config.http_check_frequency)
        http = HttpSourceConfig(config.static_pod_url, settings.node_name, headers, period, backup=backup / "http")
    return SourcesConfig(files, http)
