"""Fixtures that all tests of namespaces need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.linux.filesystems.mounts import unmount_all_under


@pytest.fixture(autouse=True)
def unmounted(tmp_path: Path) -> Iterator[None]:
    """Unmount leftover mounts below the test's directory: the directory of network namespaces stays a mount."""
    yield
    unmount_all_under(str(tmp_path), lazy=True)
