"""Runtime handlers of a version of the configuration: what refuses it, and what is only for the moment."""

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.criserver.compose.handlers import HandlerFactory, HandlerTools
from pykubelet.criserver.config import Handler, HandlerType, Settings
from pykubelet.criserver.programs import Marks
from pykubelet.testing.limits import no_descriptors


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "base.json").write_text('{"hooks": {}}')
    handler = Handler(type=HandlerType.OCI, path="/bin/true", base_runtime_spec=tmp_path / "base.json")
    return Settings(root=tmp_path, run=tmp_path, handlers={"plain": handler}, default_handler="plain")


@pytest.fixture
def factory(monkeypatch: pytest.MonkeyPatch) -> HandlerFactory:
    monkeypatch.setattr("pykubelet.linux.cgroups.detect", lambda: None)
    monkeypatch.setattr("pykubelet.linux.cgroups.MigrationWarmUp", lambda _: None)
    parts = cast(Any, None)
    tools = HandlerTools(marks=Marks("/x"), observe=None, conmon=parts, oom_kills=parts, shim_events=parts)
    return HandlerFactory(tools)


def test_base_that_cannot_be_read_for_the_moment_does_not_refuse_the_configuration(
    settings: Settings, factory: HandlerFactory
) -> None:
    """A refused configuration is not read again before it changes."""
    with no_descriptors(), pytest.raises(Transient, match=r"base\.json cannot be read: Too many open files"):
        factory.build(settings)
    assert factory.build(settings).options["plain"].base == {"hooks": {}}


def test_only_a_missing_program_of_the_default_handler_refuses_the_configuration(
    settings: Settings, factory: HandlerFactory
) -> None:
    missing = Handler(type=HandlerType.OCI, path="/none/runc")
    found = factory.build(replace(settings, handlers={**settings.handlers, "other": missing}))
    assert list(found.runtimes) == ["plain"]
    with pytest.raises(Permanent, match=r"apt-get install /none/runc"):
        factory.build(replace(settings, handlers={"other": missing}, default_handler="other"))


def test_missing_base_refuses_the_configuration(settings: Settings, factory: HandlerFactory, tmp_path: Path) -> None:
    (tmp_path / "base.json").unlink()
    with pytest.raises(Invalid, match=r"handlers\.plain\.base_runtime_spec .*: cannot be read: No such file"):
        factory.build(settings)
