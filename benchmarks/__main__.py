"""The command: ``python -m benchmarks [--only PART,…] [--quick] [--tmpfs]`` with ``GO_KUBELET=/path`` for the peer."""

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from benchmarks import report
from benchmarks.budgets import judge, load
from benchmarks.figures import Figure
from benchmarks.plan import QUICK, Part, Plan
from benchmarks.run import run
from benchmarks.through_api import Output
from benchmarks.usage import stolen_remark, stolen_seconds
from benchmarks.world import World, world
from pykubelet.base.errors import Invalid, PykubeletError

_FILE_WIDTH = 120
"""Columns of the tables if the output is not a terminal."""


def _parts(_context: click.Context, _parameter: click.Parameter, value: str) -> frozenset[Part]:
    try:
        return frozenset(Part(name) for name in value.split(",") if name) or frozenset(Part)
    except ValueError as error:
        raise click.BadParameter(f"{error}; the parts are {', '.join(Part)}") from None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", default="", callback=_parts, help=f"Parts to measure, of {','.join(Part)}.")
@click.option("--quick", is_flag=True, help="Few and short measurements: to see whether it works.")
@click.option("--tmpfs", is_flag=True, help="Keep the files of the run in memory: to compare versions.")
@click.option("--json", "target", type=click.Path(path_type=Path), default=Path("build/bench.json"), show_default=True)
def main(only: frozenset[Part], quick: bool, tmpfs: bool, target: Path) -> None:
    """Measure the agent on a private containerd, against bare CRI calls and the Go kubelet (GO_KUBELET=PATH).

    The part `api` needs KUBEBUILDER_ASSETS, a directory with etcd and a kube-apiserver of at least the peer's version.

    Exit status: 0 measured, also if goals are missed; 1 a measurement failed; 130 interrupted.
    """
    if os.geteuid() != 0:
        raise click.ClickException("must run as root: it starts a container runtime and pods")
    plan = replace(QUICK if quick else Plan(), parts=only)
    figures: list[Figure] = []
    failure = during = ""
    progress = _Progress()
    out = Output(figures, [], progress.say)
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    try:
        progress.say("starting two runtimes")
        with world(_peer(), in_memory=tmpfs) as made:
            try:
                asyncio.run(_run(made, plan, out))
            except BaseException:
                during = f" ({progress.last})"
                raise
            finally:
                progress.say("removing everything\n")
    except (KeyboardInterrupt, asyncio.CancelledError):
        failure = "interrupted"
    except (PykubeletError, AssertionError, OSError, BaseExceptionGroup) as error:
        failure = _tell(error) + during
    judgements = judge(load(), figures)
    report.show(console, figures, judgements)
    report.write(target, figures, judgements, failure, out.remarks)
    for remark in out.remarks:
        console.print(f"[yellow]remark:[/yellow] {escape(remark)}", soft_wrap=True)
    console.print(f"all values: {target}")
    if failure:
        console.print(f"[bold red]not finished:[/bold red] {failure}", soft_wrap=True)
        sys.exit(130 if failure == "interrupted" else 1)


async def _run(made: World, plan: Plan, out: Output) -> None:
    began, stolen = time.monotonic(), stolen_seconds()
    work = asyncio.ensure_future(run(made, plan, out))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    finally:
        if remark := stolen_remark(stolen_seconds() - stolen, time.monotonic() - began):
            out.remarks.append(remark)


def _peer() -> Path | None:
    given = os.environ.get("GO_KUBELET", "")
    if not given:
        return None
    path = Path(given).resolve()
    if not os.access(path, os.X_OK):
        raise Invalid(f"GO_KUBELET={given}: no executable file is there")
    return path


class _Progress:
    """Reports progress; on a terminal in one line that is overwritten."""

    def __init__(self) -> None:
        self.last = ""
        self._begin = time.monotonic()

    def say(self, text: str) -> None:
        self.last = text
        line = f"{time.monotonic() - self._begin:6.1f} s  {text}"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _tell(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
