"""A request to reload that comes while a daemon starts: SIGHUP ends a process that has no handler for it yet."""

import signal
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pykubelet.cli.commands.node import criserver, run


class ReachedError(Exception):
    """The command has come to its configuration."""


@pytest.fixture(autouse=True)
def default_disposition() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def _reached(*arguments: object, **more: object) -> None:
    raise ReachedError


@pytest.mark.parametrize(
    ("command", "module", "reads"),
    [(criserver.command, criserver, "load_settings"), (run.command, run, "take_kubelet_flags")],
)
def test_request_to_reload_while_a_daemon_starts_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, command: click.Command, module: object, reads: str
) -> None:
    monkeypatch.setattr(module, reads, _reached)
    monkeypatch.setattr(module, "setup", _nothing)
    result = CliRunner().invoke(command, [])
    assert isinstance(result.exception, ReachedError)
    handler = signal.getsignal(signal.SIGHUP)
    assert callable(handler) and not isinstance(handler, signal.Handlers)


def _nothing(*arguments: object) -> None:
    pass
