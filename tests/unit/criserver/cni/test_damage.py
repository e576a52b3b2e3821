"""Whatever lies in the directories of the network, it is read or refused at once, and followed in some way."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import asyncinotify
import pytest
from asyncinotify import Inotify

from pykubelet.base.errors import Transient
from pykubelet.base.files.safe_path import read_regular
from pykubelet.criserver.cni import attachment_records, network_files, network_manager
from pykubelet.testing.limits import no_descriptors
from pykubelet.testing.wait import until
from tests.unit.criserver.cni.rig import ID, REQUEST, Rig


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = pytest.mark.parametrize("kind", [_fifo, Path.mkdir, _sparse, _endless])


@KINDS
async def test_configuration_that_is_no_file_is_named_and_keeps_no_other(
    tmp_path: Path, kind: Callable[[Path], None]
) -> None:
    rig = Rig(tmp_path)
    kind(tmp_path / "conf" / "00.conflist")
    async with asyncio.timeout(10):
        await rig.network.start()
        assert "00.conflist" in rig.network.problem()
        rig.configure("first")
        await rig.network.start()
        assert rig.network.problem() == ""


@KINDS
async def test_address_is_released_though_something_else_lies_in_place_of_its_attachment(
    tmp_path: Path, kind: Callable[[Path], None]
) -> None:
    rig = Rig(tmp_path)
    rig.configure("first", "second")
    async with asyncio.timeout(20):
        await rig.network.start()
        await rig.network.attach(REQUEST)
        file = tmp_path / "attachments" / f"{ID}.json"
        file.unlink()
        kind(file)
        assert rig.network.held() == [ID]
        await rig.network.detach(ID, REQUEST)
        assert rig.calls()[-2:] == ["DEL second", "DEL first"]
        assert rig.network.held() == []
        if not file.exists():
            kind(file)
        await rig.network.attach(REQUEST)
        assert file.is_file()
        await rig.network.detach(ID)


async def test_file_in_place_of_the_attachments_is_set_aside(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.configure("first")
    (tmp_path / "attachments").write_text("precious")
    await rig.network.start()
    await rig.network.attach(REQUEST)
    assert (tmp_path / "attachments.aside-1").read_text() == "precious"


async def test_configuration_is_looked_at_periodically_without_inotify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers of root share its instances, and can take all of them."""
    tries, refused = 0, True

    def refuse() -> Inotify:
        nonlocal tries
        tries += 1
        if refused:
            raise OSError(errno.EMFILE, "Too many open files")
        return Inotify()

    monkeypatch.setattr(asyncinotify, "Inotify", refuse)
    monkeypatch.setattr(network_manager, "_LOOK_EVERY", 0.05)
    rig = Rig(tmp_path)
    following = asyncio.create_task(rig.network.run(), name="network")
    try:
        await until(lambda: "no network configuration" in rig.network.problem())
        await until(lambda: tries > 2)
        refused, before = False, tries
        await until(lambda: tries > before)
        rig.configure("first")
        await until(lambda: rig.network.problem() == "")
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _attached(rig: Rig) -> None:
    rig.configure("first")
    await rig.network.start()
    await rig.network.attach(REQUEST)


async def test_attachment_that_cannot_be_read_for_the_moment_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its record, the address would be released by the configuration of now, and be lost with another one."""
    rig = Rig(tmp_path)
    await _attached(rig)
    rig.configure("second")
    await rig.network.start()

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(attachment_records, "read_regular", refuse)
        with pytest.raises(Transient, match="Too many open files"):
            await rig.network.detach(ID, REQUEST)
    assert rig.network.held() == [ID]
    assert rig.calls() == ["ADD first"]
    await rig.network.detach(ID, REQUEST)
    assert rig.calls() == ["ADD first", "DEL first"]


async def test_networks_stay_while_the_server_has_no_descriptors(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await _attached(rig)
    with no_descriptors():
        await rig.network.reload()
    assert rig.network.problem() == ""
    assert "Too many open files" in rig.network.problems()[0]
    await rig.network.reload()
    assert rig.network.problems() == []


@pytest.mark.parametrize("part", ["conf", "conf/10.conflist"])
async def test_change_that_cannot_be_read_for_the_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    rig = Rig(tmp_path)
    failures: list[OSError] = []
    listed = Path.iterdir

    def fails(path: Path) -> None:
        if path == tmp_path / part and failures:
            raise failures.pop()

    def read_or_fail(path: Path, limit: int) -> bytes:
        fails(path)
        return read_regular(path, limit)

    def list_or_fail(path: Path) -> Iterator[Path]:
        fails(path)
        return listed(path)

    monkeypatch.setattr(network_files, "read_regular", read_or_fail)
    monkeypatch.setattr(Path, "iterdir", list_or_fail)
    following = asyncio.create_task(rig.network.run(), name="network")
    try:
        await until(lambda: "no network configuration" in rig.network.problem())
        failures += [OSError(errno.EIO, "Input/output error")] * 3
        rig.configure("first")
        await until(lambda: rig.network.problem() == "")
        assert not failures
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
