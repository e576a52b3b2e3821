"""Pinned namespaces below a test's directory."""

from pathlib import Path

from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.linux.filesystems.mountinfo import mounts_below


def opened(directory: Path, shared: str = "netns") -> PinnedNamespaces:
    """The namespaces of a server, with their records in ``ns`` and network namespaces in ``shared``."""
    return PinnedNamespaces.open(directory=directory / "ns", shared=directory / shared)


def assert_nothing_mounted(directory: Path, *shared: str) -> None:
    """No namespace is pinned; only the shared directories themselves may be mounts."""
    own = {str(directory / name) for name in ("netns", *shared)}
    assert [mount.path for mount in mounts_below(str(directory)) if mount.path not in own] == []
