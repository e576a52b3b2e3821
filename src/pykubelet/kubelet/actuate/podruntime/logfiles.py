"""Log folders of pods and the links to them: made before a start, removed with the pod.

Everything here blocks; callers run it in a thread. Log collectors rely on this layout
(:mod:`pykubelet.kubelet.actuate.criconfig.names`).
"""

import logging
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pykubelet.kubelet.actuate.criconfig.names import (
    container_id_of_log_link,
    container_log_dir,
    log_link_name,
    pod_log_dir,
    restart_count_from_logs,
    uid_of_log_dir,
    unstarted_mark,
)
from pykubelet.kubelet.actuate.podruntime.types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID

_log = logging.getLogger(__name__)
_DIR_MODE = 0o755


class LogFiles:
    """The log folders and links of this node."""

    def __init__(self, config: PodRuntimeConfig) -> None:
        self._root = config.pod_logs_dir
        self._links = Path(config.container_logs_dir) if config.container_logs_dir else None

    def pod_dir(self, ref: PodRef) -> Path:
        """Where the logs of a pod are."""
        return Path(pod_log_dir(self._root, ref))

    def make_pod_dir(self, ref: PodRef) -> None:
        """Make the pod's folder. Raises OSError."""
        self.pod_dir(ref).mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)

    def prepare_container(self, ref: PodRef, container: str) -> int:
        """Make a container's folder; gives the restart count that follows from logs already there. Raises OSError."""
        folder = container_log_dir(self._root, ref, container)
        Path(folder).mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
        with os.scandir(folder) as entries:
            return restart_count_from_logs(entry.name for entry in entries)

    def link(self, ref: PodRef, container: str, container_id: ContainerID, path: str) -> None:
        """Make the collectors' link to a log given relative to the pod's folder. Raises OSError."""
        if self._links is None:
            return
        self._links.mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (self._links / log_link_name(ref, container, container_id)).symlink_to(self.pod_dir(ref) / path)

    def mark_unstarted(self, ref: PodRef, container: str, restart_count: int) -> None:
        """Note that an attempt is being removed since it never ran: without it, its log shall not count as a restart.

        The log itself goes after it (``remove_attempt``): should it run after all, nobody has taken its log away.
        """
        with suppress(FileNotFoundError):
            (Path(container_log_dir(self._root, ref, container)) / unstarted_mark(restart_count)).touch()

    def unmark(self, ref: PodRef, attempts: Iterable[tuple[str, int]]) -> None:
        """Attempts, by container and restart count, that have run after all or stay: their logs count."""
        for container, restart_count in attempts:
            folder = Path(container_log_dir(self._root, ref, container))
            (folder / unstarted_mark(restart_count)).unlink(missing_ok=True)

    def remove_attempt(self, ref: PodRef, container: str, container_id: ContainerID, restart_count: int) -> None:
        """Remove the link to and the log of one attempt, its rotated parts and its mark included."""
        self.unlink(ref, container, container_id)
        folder, log = Path(container_log_dir(self._root, ref, container)), f"{restart_count}.log"
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == log or entry.name.startswith(f"{log}."):
                    Path(entry.path).unlink(missing_ok=True)
            (folder / unstarted_mark(restart_count)).unlink(missing_ok=True)

    def unlink(self, ref: PodRef, container: str, container_id: ContainerID) -> None:
        """Remove the link to the log of a container."""
        if self._links is not None:
            (self._links / log_link_name(ref, container, container_id)).unlink(missing_ok=True)

    def remove_pod(self, ref: PodRef) -> None:
        """Remove the pod's folder and every link into it. Raises OSError."""
        folder = self.pod_dir(ref)
        self._remove_links_into({folder})
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def pod_dirs(self) -> dict[Path, PodUID]:
        """The log folders of all pods."""
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            return {
                Path(entry.path): uid_of_log_dir(entry.name)
                for entry in entries
                if entry.name.count("_") >= 2 and entry.is_dir(follow_symlinks=False)
            }
        return {}

    def remove_dirs(self, folders: Collection[Path]) -> None:
        """Remove log folders of pods that are gone, and the links into them; what resists is logged and left."""
        self._remove_links_into(set(folders))
        for folder in folders:
            try:
                shutil.rmtree(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning(
                    "cannot remove the logs of a pod that is gone",
                    extra={"path": str(folder), "error": str(error)},
                )

    def dead_links(self) -> dict[Path, ContainerID | None]:
        """Links to logs that are not there, with the container that they belong to where the name says it."""
        return {link: container_id_of_log_link(link.name) for link, target in self._all_links() if not target.exists()}

    def remove_links(self, links: Iterable[Path]) -> None:
        """Remove links. Raises OSError."""
        for link in links:
            link.unlink(missing_ok=True)

    def _remove_links_into(self, folders: set[Path]) -> None:
        if folders:
            self.remove_links(link for link, target in self._all_links() if target.parent.parent in folders)

    def _all_links(self) -> Iterator[tuple[Path, Path]]:
        """Every link of the collectors' folder and where it points; other files are none of our business."""
        if self._links is None:
            return
        with suppress(FileNotFoundError), os.scandir(self._links) as entries:
            for entry in entries:
                if entry.name.endswith(".log") and entry.is_symlink():
                    with suppress(OSError):
                        yield Path(entry.path), Path(entry.path).readlink()
