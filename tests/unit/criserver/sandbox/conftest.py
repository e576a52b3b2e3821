"""These tests mount nothing on the machine, so they need no privileges and leave nothing."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def mounted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths where file systems would have been mounted."""
    places: list[str] = []

    def tmpfs(target: str, **_: Any) -> None:
        places.append(target)

    monkeypatch.setattr("pykubelet.criserver.sandbox.files.tmpfs", tmpfs)
    return places
