"""The symlinks that log collectors follow to the logs of containers.

All functions block; callers run them in a thread. Log collectors rely on the names
(:mod:`pykubelet.kubelet.actuate.cri_messages.names`).
"""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from pykubelet.base.files.safe_path import directory_in_root
from pykubelet.kubelet.actuate.cri_messages.names import container_id_of_log_link, is_log_link_name, log_link_name
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import ContainerID, PodRef

_DIR_MODE = 0o755


class LogLinks:
    """Log symlinks of this node; none if the configuration has no directory for them."""

    def __init__(self, config: PodRuntimeConfig) -> None:
        self._root = config.pod_logs_dir
        self._directory = Path(config.container_logs_dir) if config.container_logs_dir else None

    def add(self, ref: PodRef, container: str, container_id: ContainerID, log: Path) -> None:
        """Create the symlink to the log of a container. Raises OSError."""
        if self._directory is None:
            return
        self._directory.mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (self._directory / log_link_name(ref, container, container_id)).symlink_to(log)

    def remove(self, ref: PodRef, container: str, container_id: ContainerID) -> None:
        """Remove the symlink to the log of a container. Raises OSError."""
        if self._directory is not None:
            (self._directory / log_link_name(ref, container, container_id)).unlink(missing_ok=True)

    def remove_into(self, directory: Path) -> None:
        """Remove every symlink into a pod's log directory. Raises OSError."""
        for link in self._all():
            target = _target(link)
            if target is not None and target.parent.parent == directory:
                self.drop(link)

    def dead(self, skip: AbstractSet[ContainerID] = frozenset()) -> dict[Path, ContainerID | None]:
        """Return symlinks to missing logs, with the container id from the link's name, if it has one.

        Links of the containers in ``skip`` are not examined. Targets outside the pod log directory are not accessed,
        since their file system may not respond: a link that points there is dead if it is named like a log symlink.
        """
        named = ((link, container_id_of_log_link(link.name)) for link in self._all())
        return {link: container for link, container in named if container not in skip and self._is_dead(link)}

    def drop(self, link: Path) -> None:
        """Remove a link that ``dead`` has found. Raises OSError."""
        link.unlink(missing_ok=True)

    def _is_dead(self, link: Path) -> bool:
        target = _target(link)
        if target is None:
            return False
        try:
            names = target.relative_to(self._root).parts
        except ValueError:
            names = ()
        if len(names) != 3 or ".." in names:
            return is_log_link_name(link.name)
        try:
            with directory_in_root(self._root, *names[:2]) as directory:
                os.stat(names[2], dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return True
        return False

    def _all(self) -> Iterator[Path]:
        """Every log symlink in the collectors' directory; other files are ignored."""
        if self._directory is None:
            return
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name.endswith(".log") and entry.is_symlink():
                    yield Path(entry.path)


def _target(link: Path) -> Path | None:
    """The target of a link; None if it is gone meanwhile or cannot be read."""
    try:
        return link.readlink()
    except OSError:
        return None
