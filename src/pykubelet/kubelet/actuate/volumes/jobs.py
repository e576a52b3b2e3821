"""Volumes that are set up in a thread of their pod: the job for each, and what is said of those that fail."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.volumes.source import Source
from pykubelet.kubelet.actuate.volumes.types import Ready, Work


@dataclass(frozen=True, slots=True)
class Job:
    """A volume to set up, and where it will be."""

    path: Path
    work: Work


def is_as_left(ready: Ready | None, job: Job) -> bool:
    """Whether a volume is as this process left it, and shows what it should; None need not be looked at again."""
    return ready is None or (ready.content == job.work.content and ready == _observe(job))


def set_up_all(
    jobs: Mapping[str, Job], measured: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
) -> tuple[dict[str, Ready | None], dict[str, str]]:
    """Set up volumes one after the other (most take a fraction of a millisecond); problems by name. Blocks."""
    done: dict[str, Ready | None] = {}
    problems: dict[str, str] = {}
    for name, job in jobs.items():
        try:
            with measured(name):
                job.work.run()
        except (PykubeletError, OSError) as error:
            problems[name] = str(error)
            continue
        done[name] = None if job.work.lasting else _observe(job)
    return done, problems


def not_set_up(source: Source | None, text: str) -> str:
    """What is said of a volume that could not be set up; without a source it was the pod's directory."""
    if source is None:
        return f"error making pod data directories: {text}"
    claim = f" (of claim {source.claim})" if source.claim else ""
    return f'MountVolume.SetUp failed for volume "{source.name}"{claim} : {text}'


def not_processed(problems: Mapping[str, str]) -> str:
    """As the reference says it of volumes that it cannot even begin with."""
    names = " ".join(problems)
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{names}], unattached volumes=[], "
        f"failed to process volumes=[{names}]: {'; '.join(problems.values())}"
    )


def _observe(job: Job) -> Ready | None:
    try:
        info = job.path.lstat()
    except OSError:
        return None
    return Ready(info.st_dev, info.st_ino, job.work.content)
