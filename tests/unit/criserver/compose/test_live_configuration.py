"""The contents in force of files that are read without a reload, and their problems."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

from msgspec.structs import replace

from pykubelet.criserver.compose.live_configuration import LiveConfiguration
from pykubelet.criserver.compose.registries import ConfiguredRegistries
from pykubelet.criserver.config import RegistryHost, Settings
from pykubelet.testing.clock import VirtualClock


def settings(home: Path, **hosts: RegistryHost) -> Settings:
    return Settings(root=home, registries=hosts, registries_file=home / "registries.toml", registry_dirs=())


def test_registries_of_a_reload_are_used_from_then_on(tmp_path: Path) -> None:
    registries = ConfiguredRegistries(settings(tmp_path, a=RegistryHost(plain_http=True)), VirtualClock())
    assert registries.hosts()["a"].plain_http
    registries.configure(settings(tmp_path, b=RegistryHost(mirrors=("https://m",), ca="/ca")))
    found = registries.hosts()
    assert list(found) == ["b"]
    assert (found["b"].mirrors, found["b"].tls.ca) == (("https://m",), "/ca")


def test_registries_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    registries = ConfiguredRegistries(settings(tmp_path), VirtualClock())
    assert registries.described() == ({"hosts": {}, "directories": {}}, [])
    (tmp_path / "registries.toml").write_text("[")
    described, problems = registries.described()
    assert described["hosts"] == {} and len(problems) == 1 and "not TOML" in problems[0]


async def test_problems_of_all_files_are_shown_together(tmp_path: Path) -> None:
    registries = ConfiguredRegistries(replace(settings(tmp_path)), VirtualClock())
    (tmp_path / "registries.toml").write_text("[")
    network: Any = Mock(described=lambda: {"networks": []}, problems=lambda: ["no network"])
    policy: Any = Mock(problems=lambda: ["bad key"])
    live = LiveConfiguration(reloader=Mock(), registries=registries, network=network, image_policy=policy)
    found, problems = await live.files()
    assert found["cniconfig"] == {"networks": []}
    assert problems[1:] == ["bad key", "no network"] and "not TOML" in problems[0]
    assert live.state() is live.reloader.state()
