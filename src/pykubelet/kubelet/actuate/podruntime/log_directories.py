"""Log directories of pods: created before a start, removed with the pod. ``log_links.py`` has the links to their logs.

All functions block; callers run them in a thread. Log collectors rely on this layout
(:mod:`pykubelet.kubelet.actuate.cri_messages.names`). A pod with a writable hostPath may have changed anything there,
so directories are opened by descriptor from the root down, never through a link, and files are named relative to them.
"""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import directory_in_root, open_regular_at
from pykubelet.kubelet.actuate.cri_messages.names import (
    container_log_path,
    pod_log_dir,
    pod_log_name,
    restart_count_from_logs,
    uid_of_log_dir,
    unstarted_mark,
)
from pykubelet.kubelet.actuate.podruntime.log_links import LogLinks
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.actuate.podruntime.start.pod_files import tail_of
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.linux.filesystems.removal import remove_tree_at

_DIR_MODE = 0o755
_MARK_MODE = 0o644


class LogFiles:
    """Log directories of this node's pods."""

    def __init__(self, config: PodRuntimeConfig) -> None:
        self._root = config.pod_logs_dir
        self.links = LogLinks(config)
        """The symlinks of log collectors into the directories."""

    @property
    def root(self) -> Path:
        """Directory of all pod log directories."""
        return Path(self._root)

    def pod_dir(self, ref: PodRef) -> Path:
        """Log directory of a pod."""
        return Path(pod_log_dir(self._root, ref))

    def make_pod_dir(self, ref: PodRef) -> None:
        """Create the pod's log directory. Raises OSError."""
        self._make_root()
        with directory_in_root(self._root, pod_log_name(ref), make=_DIR_MODE):
            return

    def prepare_container(self, ref: PodRef, container: str) -> int:
        """Create a container's log directory; return the restart count derived from its logs. Raises OSError."""
        self._make_root()
        made = directory_in_root(self._root, pod_log_name(ref), container, make=_DIR_MODE)
        with made as directory, os.scandir(directory) as entries:
            return restart_count_from_logs(entry.name for entry in entries)

    def created(self, ref: PodRef, container: str, container_id: ContainerID, path: str, restart_count: int) -> None:
        """Link the log of a container that was just created; ``path`` is relative to the pod's directory.

        Removes an "unstarted" mark with the same restart count, which an agent that was killed may have left. Raises
        OSError.
        """
        self.unmark(ref, [(container, restart_count)])
        self.links.add(ref, container, container_id, self.pod_dir(ref) / path)

    def mark_unstarted(self, ref: PodRef, container: str, restart_count: int) -> None:
        """Mark an attempt that never ran and is being removed, so that its log does not count as a restart.

        The log itself is removed later (``remove_attempt``): if the attempt runs after all, its log is still there.
        """
        with suppress(FileNotFoundError), self._container(ref, container) as directory, suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(unstarted_mark(restart_count), flags, _MARK_MODE, dir_fd=directory))

    def unmark(self, ref: PodRef, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove the "unstarted" marks of attempts (container, restart count) that have run or remain."""
        for container, restart_count in attempts:
            with suppress(FileNotFoundError), self._container(ref, container) as directory:
                os.unlink(unstarted_mark(restart_count), dir_fd=directory)

    def remove_attempt(self, ref: PodRef, container: str, container_id: ContainerID, restart_count: int) -> None:
        """Remove the log of one attempt with its rotated files, mark and symlink. Raises OSError."""
        self.links.remove(ref, container, container_id)
        log = Path(container_log_path(container, restart_count)).name
        with suppress(FileNotFoundError), self._container(ref, container) as directory:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name == log or entry.name.startswith(f"{log}."):
                        _unlink(entry.name, directory)
            _unlink(unstarted_mark(restart_count), directory)

    def remove_pod(self, ref: PodRef) -> None:
        """Remove the pod's log directory and every symlink into it. Raises OSError, Conflict for a mount point."""
        self.remove_dir(self.pod_dir(ref))

    def pod_dirs(self) -> dict[Path, PodUID]:
        """The log directories of all pods. Raises OSError."""
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            return {
                Path(entry.path): uid_of_log_dir(entry.name)
                for entry in entries
                if entry.name.count("_") >= 2 and entry.is_dir(follow_symlinks=False)
            }
        return {}

    def remove_dir(self, directory: Path) -> None:
        """Remove a pod's log directory, of any depth, and the links into it. Raises OSError, Conflict."""
        self.links.remove_into(directory)
        with suppress(FileNotFoundError), directory_in_root(directory.parent) as top:
            remove_tree_at(top, directory.name)

    def read_tail(self, ref: PodRef, container: str, restart_count: int, limit: int) -> bytes | None:
        """Return the last ``limit`` bytes of an attempt's log; None if there is no regular file. Raises OSError."""
        log = Path(container_log_path(container, restart_count)).name
        with suppress(FileNotFoundError, Invalid), self._container(ref, container) as directory:
            return tail_of(open_regular_at(directory, log), limit)
        return None

    def _make_root(self) -> None:
        Path(self._root).mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)

    def _container(self, ref: PodRef, container: str) -> AbstractContextManager[int]:
        return directory_in_root(self._root, pod_log_name(ref), container)


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
