"""SELinux labels of layers. Any file system stores them for root; new files inherit them only where SELinux is on."""

import errno
import logging
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.clock import SystemClock
from pykubelet.criserver.compose.images import open_images
from pykubelet.criserver.config import load_settings
from pykubelet.criserver.storage import Layers
from pykubelet.linux import selinux
from pykubelet.linux.selinux import ContainerLabels
from tests.unit.criserver.storage.world import World, directory, entry, link

pytestmark = pytest.mark.root
LABEL = "system_u:object_r:container_ro_file_t:s0"


def label_of(path: Path) -> str:
    try:
        return os.getxattr(path, "security.selinux", follow_symlinks=False).rstrip(b"\0").decode()
    except OSError:
        return ""


def labelled(world: World) -> Layers:
    found = Layers(root=world.root / "storage", blob=lambda digest: world.blobs / digest[7:], label=LABEL)
    found.load()
    return found


async def test_layers_of_a_server_without_selinux_are_labelled_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    made = await world.unpack([directory("bin"), entry("bin/sh", data=b"x"), link("sh", "/etc/passwd")])
    assert not any(label_of(path) for path in (world.layers.directory, made, *made.rglob("*")))
    with caplog.at_level(logging.INFO):
        layers = labelled(world)
    everything = {layers.directory, *layers.directory.rglob("*")}
    assert made / "bin/sh" in everything and {label_of(path) for path in everything} == {LABEL}
    assert layers.get(world.stack[0].chain_id) is not None
    assert [record.__dict__["files"] for record in caplog.records] == [len(everything)]


async def test_labelled_layers_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    await world.unpack([entry("a")])
    labelled(world)
    monkeypatch.setattr(selinux, "relabel", lambda *_: pytest.fail("the tree was read"))
    labelled(world)


async def test_labelling_that_was_interrupted_is_finished_by_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    made = await world.unpack([entry("a"), entry("b")])
    real, calls = os.setxattr, 0

    def failing(*given: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        real(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "setxattr", failing)
        labelled(world)
    assert label_of(world.layers.directory) == ""
    labelled(world)
    assert {label_of(path) for path in (world.layers.directory, made, made / "a", made / "b")} == {LABEL}


@pytest.mark.parametrize(("number", "warnings"), [(errno.EACCES, 1), (errno.ENOTSUP, 0)])
async def test_server_starts_though_layers_cannot_be_labelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, warnings: int
) -> None:
    world = World(tmp_path)
    await world.unpack([entry("a")])

    def denied(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "setxattr", denied)
    layers = labelled(world)
    assert layers.get(world.stack[0].chain_id) is not None
    assert len([record for record in caplog.records if "cannot get their SELinux label" in record.message]) == warnings


@pytest.mark.parametrize(("enabled", "expected"), [(True, LABEL), (False, "")])
async def test_server_labels_its_layers_as_the_policy_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool, expected: str
) -> None:
    known = ContainerLabels(process="p", files="f", layers=LABEL)
    monkeypatch.setattr("pykubelet.linux.selinux.container_labels", lambda: known)
    settings = replace(load_settings(None), root=tmp_path, run=tmp_path / "run", enable_selinux=enabled)
    await open_images(settings, SystemClock())
    assert label_of(tmp_path / "storage" / "layers") == label_of(tmp_path / "storage" / "layers" / "0") == expected
