"""Jobs that set up volumes in a thread of their pod, and the messages for those that fail."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.units import MIB
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.actuate.volumes.volume_types import ReadyVolume, Work

_MAX_OF_POD: Final = 128 * MIB


class VolumeJob(Struct, frozen=True):
    """Volume to set up, and its path."""

    path: Path
    work: Work


class WrittenBytes:
    """Bytes of the files that the agent writes into the volumes of one pod: any number of them may name one object."""

    def __init__(self, ready: Iterable[ReadyVolume | None]) -> None:
        self._used = sum(int(each.size) for each in ready if each is not None)

    def charge(self, before: ReadyVolume | None, work: Work) -> None:
        """Count a volume that is set up or changed; ``before``: as it is. Invalid: the pod has too many bytes."""
        used = self._used + work.size - (before.size if before is not None else 0)
        if used > _MAX_OF_POD:
            raise Invalid(
                f"the files of all volumes of the pod have more than {_MAX_OF_POD // MIB} MiB together; "
                "use fewer volumes of large ConfigMaps and Secrets"
            )
        self._used = used


def is_changed(ready: ReadyVolume, path: Path) -> bool:
    """Whether another directory than the one that this process set up is at the path, or none. Blocks."""
    try:
        info = path.lstat()
    except OSError:
        return True
    return (info.st_dev, info.st_ino) != (ready.device, ready.inode)


def gets_other_content(ready: ReadyVolume | None, job: VolumeJob) -> bool:
    """Whether the files of a volume have to be written again; ``ready`` None: it has none of the agent."""
    return ready is not None and ready.content != job.work.content


def set_up_all(
    jobs: Mapping[str, VolumeJob], measured: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
) -> tuple[dict[str, ReadyVolume | None], dict[str, str]]:
    """Set up volumes one after the other; return those set up, and the problems, by name. Blocks."""
    done: dict[str, ReadyVolume | None] = {}
    problems: dict[str, str] = {}
    for name, job in jobs.items():
        try:
            with measured(name):
                job.work.run()
        except (PykubeletError, OSError) as error:
            problems[name] = str(error)
            continue
        done[name] = None if job.work.once else _observe(job)
    return done, problems


def not_set_up(source: Source | None, text: str) -> str:
    """Message for a volume that was not set up; without a source the pod's directory was not created."""
    if source is None:
        return f"error making pod data directories: {text}"
    claim = f" (of claim {source.claim})" if source.claim else ""
    step = "MapVolume.SetUpDevice" if source.block else "MountVolume.SetUp"
    return f'{step} failed for volume "{source.name}"{claim} : {text}'


def not_processed(problems: Mapping[str, str]) -> str:
    """Message of the Go kubelet for volumes whose source could not be looked up."""
    names = " ".join(problems)
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{names}], unattached volumes=[], "
        f"failed to process volumes=[{names}]: {'; '.join(problems.values())}"
    )


def attach_limit_exceeded(unmounted: Iterable[str], unattached: Mapping[str, str], failed: Iterable[str]) -> str:
    """Message of the Go kubelet for a pod that is rejected since volumes cannot be attached.

    ``unmounted``: volumes that are not set up; ``unattached``: those that cannot be attached, with their causes;
    ``failed``: those whose source could not be looked up.
    """
    return (
        "Node has reached its volume attachment limit, rejecting pod. "
        f"unmounted volumes=[{' '.join(sorted(unmounted))}], unattached volumes=[{' '.join(sorted(unattached))}], "
        f"failed to process volumes=[{' '.join(sorted(failed))}]: {'; '.join(unattached.values())}"
    )


def _observe(job: VolumeJob) -> ReadyVolume | None:
    try:
        info = job.path.lstat()
    except OSError:
        return None
    return ReadyVolume(info.st_dev, info.st_ino, job.work.content, job.work.size)
