"""A mistake in a file of registries is named with its place."""

from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid, Transient
from pykubelet.criserver.compose.images import open_images
from pykubelet.criserver.config import RegistryHost, RegistryTable, load_settings
from pykubelet.testing.limits import no_descriptors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[registries.a]\nmirror = []", r"registries\.toml:2:1: .*mirror"),
        ("[registries.a]\nmirrors = 'x'", r"registries\[\.\.\.\]\.mirrors"),
        ("[registry.a]\n", "registry"),
        ("[", r"registries\.toml: not TOML"),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "registries.toml"
    path.write_text(text)
    with pytest.raises(Invalid, match=message):
        RegistryTable(path, {}).hosts()


@pytest.mark.root
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("mirrors = ['ftp://x']", "mirror 'ftp://x' of a:5000 must be http"),
        ("mirrors = ['https://u:p@x']", "mirror"),
        ("client_key = '/k'", "client_key without client_certificate"),
        ("plain_http = true\nca = '/ca'", "plain_http excludes"),
    ],
)
async def test_entries_that_make_no_sense_fail_the_pull(tmp_path: Path, entry: str, message: str) -> None:
    (tmp_path / "registries.toml").write_text(f'[registries."a:5000"]\n{entry}\n')
    file = str(tmp_path / "registries.toml")
    stores = await open_images(load_settings(None, root=str(tmp_path / "root"), registries_file=file), SystemClock())
    with pytest.raises(Invalid, match=message):
        await stores.images.pull("a:5000/x:1")


@pytest.mark.root
async def test_a_bad_entry_concerns_no_other_registry(tmp_path: Path) -> None:
    file = tmp_path / "registries.toml"
    file.write_text('[registries."a:5000"]\nmirrors = ["ftp://x"]\n')
    settings = load_settings(None, root=str(tmp_path / "root"), registries_file=str(file))
    stores = await open_images(settings, SystemClock())
    with pytest.raises(Transient, match=r"127\.0\.0\.1:1"):
        await stores.images.pull("127.0.0.1:1/x:1")


def test_invalid_version_leaves_the_former_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "registries.toml"
    table = RegistryTable(path, {"fixed": RegistryHost()})
    path.write_text("[registries.a]\nplain_http = true")
    assert set(table.hosts()) == {"fixed", "a"} and table.problem() == ""
    path.write_text("[registries.b")
    for _ in range(2):
        assert set(table.hosts()) == {"fixed", "a"}
    assert "registries.toml: not TOML" in table.problem()
    assert caplog.text.count("registries file refused") == 1
    path.write_text("[registries.b]\n")
    assert set(table.hosts()) == {"fixed", "b"} and table.problem() == ""
    path.unlink()
    assert set(table.hosts()) == {"fixed"}


def test_other_settings_replace_the_fixed_hosts_and_the_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f"[registries.{name}]\n")
    table = RegistryTable(tmp_path / "one.toml", {"a": RegistryHost()})
    assert set(table.hosts()) == {"a", "one"}
    table.configure(tmp_path / "two.toml", {"b": RegistryHost()})
    assert set(table.hosts()) == {"b", "two"}


def test_file_that_cannot_be_read_for_the_moment_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "registries.toml"
    path.write_text("[registries.a]\nplain_http = true")
    table = RegistryTable(path, {})
    with no_descriptors(), pytest.raises(Invalid, match="Too many open files"):
        table.hosts()
    assert list(table.hosts()) == ["a"] and not table.problem()
