"""The sources together: objects before pods, and what an unread source leaves alone."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import KubeletConfiguration, Settings, load_configuration
from pykubelet.kubelet.desired.sources import (
    FileSourceConfig,
    HttpSourceConfig,
    PodMux,
    Sources,
    SourcesConfig,
    sources_config,
)
from pykubelet.kubelet.desired.sources.file_source import FileSource
from pykubelet.kubelet.desired.sources.source_interfaces import Response
from pykubelet.kubelet.desired.sources.source_manager import source_periods
from pykubelet.kubelet.desired.sources.source_types import ManifestState, SourceContent, SourcePeriods
from pykubelet.kubelet.desired.sources.url_source import UrlSource
from pykubelet.kubelet.types.updates import PodUpdate, Source
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.desired.sources.samples import FakeObjects, FakeStates, config_map, pod


class OnePod:
    """A URL that always gives one pod."""

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        return Response(200, pod("h").encode())

    async def close(self) -> None:
        pass


async def test_both_sources_reach_the_loop(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(pod("a") + config_map("c"))
    updates: asyncio.Queue[PodUpdate] = asyncio.Queue()
    config = SourcesConfig(FileSourceConfig(tmp_path, "n"), HttpSourceConfig("http://x/", "n"))
    assert config.names() == {Source.FILE, Source.HTTP}
    clock, objects, states = SystemClock(), FakeObjects(), FakeStates()
    mux = PodMux(sources=config.names(), sink=updates.put_nowait, clock=clock)
    sources = Sources(config=config, mux=mux, objects=objects, states=states, clock=clock, fetch=OnePod())
    async with asyncio.TaskGroup() as group, asyncio.timeout(10):
        task = group.create_task(sources.run(), name="sources-under-test")
        got = [await updates.get(), await updates.get()]
        task.cancel()
    assert {(update.source, update.pods[0].metadata.name) for update in got} == {
        (Source.FILE, "a-n"),
        (Source.HTTP, "h-n"),
    }
    assert mux.all_ready()
    assert objects.names == {Source.FILE: ["c"], Source.HTTP: []}
    assert {source: [state.origin for state in each] for source, each in states.states.items()} == {
        Source.FILE: [str(tmp_path / "a.yaml")],
        Source.HTTP: ["http://x/"],
    }


async def test_without_sources_there_is_nothing_to_run() -> None:
    config, clock = SourcesConfig(), VirtualClock()
    mux = PodMux(sources=config.names(), sink=lambda update: None, clock=clock)
    await Sources(config=config, mux=mux, objects=FakeObjects(), states=FakeStates(), clock=clock).run()
    assert mux.all_ready()


def test_sources_have_the_settings_of_the_configuration(tmp_path: Path) -> None:
    config = KubeletConfiguration(
        static_pod_path="/etc/m",
        file_check_frequency="5s",
        static_pod_url="http://x/",
        static_pod_url_header={"A": ("1", "2")},
        http_check_frequency="1m",
    )
    found = sources_config(Settings("n", config, "unix:///x", root_dir=tmp_path))
    files, http = tmp_path / "manifests" / "file", tmp_path / "manifests" / "http"
    assert found.files == FileSourceConfig(Path("/etc/m"), "n", 5.0, files)
    assert found.http == HttpSourceConfig("http://x/", "n", (("A", "1"), ("A", "2")), 60.0, backup=http)
    assert sources_config(Settings("n", KubeletConfiguration(), "unix:///x")) == SourcesConfig()


def test_objects_are_there_before_the_pods_that_use_them() -> None:
    order: list[str] = []

    class NotingObjects(FakeObjects):
        def replace(self, source: Source, objects: object) -> None:
            order.append("objects")

    clock = VirtualClock()
    mux = PodMux(sources=[Source.FILE], sink=lambda update: order.append("pods"), clock=clock)
    Sources(config=SourcesConfig(), mux=mux, objects=NotingObjects(), states=FakeStates(), clock=clock).deliver(
        SourceContent(Source.FILE)
    )
    assert order == ["objects", "pods"]


def test_a_source_that_could_not_be_read_only_tells_its_state() -> None:
    clock, objects, states = VirtualClock(), FakeObjects(), FakeStates()
    mux = PodMux(sources=[Source.FILE], sink=lambda update: None, clock=clock)
    state = ManifestState(Source.FILE, "/m")
    sources = Sources(config=SourcesConfig(), mux=mux, objects=objects, states=states, clock=clock)
    sources.deliver(SourceContent(Source.FILE, states=(state,), read=False))
    assert states.states == {Source.FILE: [state]}
    assert objects.names == {}
    assert not mux.all_ready()


async def test_changed_periods_concern_the_sources_that_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, float]] = []
    monkeypatch.setattr(FileSource, "reconfigure", lambda _, period: seen.append(("files", period)))
    monkeypatch.setattr(UrlSource, "reconfigure", lambda _, period: seen.append(("http", period)))
    config = SourcesConfig(FileSourceConfig(tmp_path, "n", 60), HttpSourceConfig("http://x/", "n", period=70))
    mux = PodMux(sources=config.names(), sink=lambda update: None, clock=VirtualClock())
    sources = Sources(config=config, mux=mux, objects=FakeObjects(), states=FakeStates(), clock=VirtualClock())
    sources.reconfigure(SourcePeriods(60, 70))
    assert seen == []
    sources.reconfigure(SourcePeriods(60, 5))
    sources.reconfigure(SourcePeriods(6, 5))
    assert seen == [("http", 5), ("files", 6)]
    given = Settings("n", load_configuration(None, None, {"fileCheckFrequency": "7s"}), "unix:///x")
    assert source_periods(given) == SourcePeriods(7, 20)
