"""Flags that name files which a daemon reads again: their links are kept, since they may lead elsewhere later."""

from pathlib import Path

import click
import pytest

from pykubelet.cli.commands.node import criserver, install, run


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (run.command, "manifests config config-dir criserver-config kubeconfig bootstrap-kubeconfig"),
        (install.command, "manifests config criserver-config"),
        (criserver.command, "config"),
    ],
)
@pytest.mark.parametrize("relative", [False, True])
def test_links_on_the_way_to_files_that_are_followed_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: click.Command, flags: str, relative: bool
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "file").touch()
    (tmp_path / "current").symlink_to("1")
    monkeypatch.chdir(tmp_path)
    given = Path("current") if relative else tmp_path / "current"
    for flag in flags.split():
        of_directory = flag in ("manifests", "config-dir")
        path, expected = (each if of_directory else each / "file" for each in (given, tmp_path / "current"))
        context = command.make_context("command", [f"--{flag}", str(path)])
        assert context.params[flag.replace("-", "_")] == expected


@pytest.mark.parametrize("command", [run.command, criserver.command])
def test_an_empty_path_counts_as_not_given(command: click.Command) -> None:
    """As in the Go kubelet; files of variables for systemd units leave flags empty."""
    empty = [f"--{flag}=" for flag in ("config", "kubeconfig", "bootstrap-kubeconfig", "lock-file", "cert-dir")]
    flags = [flag for flag in empty if command is run.command or flag == "--config="]
    context = command.make_context("command", [*flags])
    assert {context.params[flag[2:-1].replace("-", "_")] for flag in flags} == {None}
