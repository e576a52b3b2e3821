"""Shows the progress of a pull or import: bars on a terminal, plain lines elsewhere, nothing with --quiet."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pykubelet.cli.client.image_client import OnProgress
from pykubelet.cli.plan.columns import short_digest, size
from pykubelet.cli.terminal import echo
from pykubelet.pb import images_v1_pb2 as transfer

_WORDS = {
    transfer.RESOLVING: "resolving",
    transfer.RESOLVED: "resolved",
    transfer.WAITING: "waiting",
    transfer.DOWNLOADING: "downloading",
    transfer.PRESENT: "present",
    transfer.UNPACKING: "unpacking",
    transfer.DONE: "done",
}


@contextmanager
def progress_output(*, quiet: bool) -> Iterator[OnProgress]:
    """Yield a function that takes progress messages. Progress goes to stderr; stdout is for results."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bars() as update:
            yield update
    else:
        yield Lines().update


class Lines:
    """Prints a line whenever a layer, or the image as a whole, enters another phase."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def update(self, steps: Sequence[transfer.Progress]) -> None:
        for step in steps:
            if self._last.get(step.layer) == step.phase or step.phase == transfer.WAITING:
                continue
            self._last[step.layer] = step.phase
            name = short_digest(step.layer) if step.layer else step.image
            extent = f" {size(step.total)}" if step.total else ""
            echo(f"{name}: {_WORDS[step.phase]}{extent}", err=True)


@contextmanager
def _bars() -> Iterator[OnProgress]:
    from rich.console import Console  # heavy; only where it is progress_output
    from rich.progress import BarColumn, DownloadColumn, Progress, Task, TaskID, TextColumn, TransferSpeedColumn
    from rich.text import Text

    class Extent(DownloadColumn):
        """The bytes of a layer; empty until they are known, instead of question marks."""

        def render(self, task: Task) -> Text:
            return super().render(task) if task.total or task.completed else Text()

    class Speed(TransferSpeedColumn):
        """The bytes per second; empty until they are known."""

        def render(self, task: Task) -> Text:
            return Text() if task.finished_speed is None and task.speed is None else super().render(task)

    columns = (
        TextColumn("{task.description:<12}"),
        TextColumn("[dim]{task.fields[phase]:<11}"),
        BarColumn(bar_width=40),
        Extent(),
        Speed(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, TaskID] = {}
        here: dict[str, int] = {}

        def update(steps: Sequence[transfer.Progress]) -> None:
            for step in steps:
                if step.layer not in tasks:
                    name = short_digest(step.layer) if step.layer else "image"
                    tasks[step.layer] = progress.add_task(name, total=None, phase="")
                if step.layer:
                    here[step.layer] = step.done
                total = step.total or None
                progress.update(tasks[step.layer], completed=step.done, total=total, phase=_WORDS[step.phase])
            if "" in tasks:
                progress.update(tasks[""], completed=sum(here.values()))

        yield update
