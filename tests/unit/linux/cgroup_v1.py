"""Files in the place of those of a cgroup of version 1 that notify of memory."""

from pathlib import Path


def cgroup(tmp_path: Path, name: str, usage: int) -> Path:
    """A directory with the files of a cgroup of version 1 that thresholds need."""
    directory = tmp_path / name
    directory.mkdir()
    (directory / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (directory / "cgroup.event_control").touch()
    return directory


def written(directory: Path) -> list[int]:
    """The eventfd, the descriptor of the counter and the threshold that were written last."""
    return [int(word) for word in (directory / "cgroup.event_control").read_text().split()]
