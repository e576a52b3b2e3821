"""The command: ``python -m benchmarks.faults [--tries N] [--peer containerd] [--only NAME,…]``; ``make faults``."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.faults import report
from benchmarks.faults.fault import Fault
from benchmarks.faults.model import Result, Subject
from benchmarks.faults.options import SHORT, Options
from benchmarks.faults.runner import Bench
from benchmarks.faults.table import FAULTS
from pykubelet import __version__
from pykubelet.base.errors import PykubeletError

_VERSIONS = {
    "runc": ("runc", "--version"),
    "conmon": ("conmon", "--version"),
    "containerd": ("containerd", "--version"),
}


def _chosen(_context: click.Context, _parameter: click.Parameter, value: str) -> list[Fault]:
    wanted = [name for name in value.split(",") if name]
    chosen = [fault for fault in FAULTS if not wanted or fault.name in wanted or fault.group.name.lower() in wanted]
    unknown = set(wanted) - {fault.name for fault in FAULTS} - {fault.group.name.lower() for fault in FAULTS}
    if unknown:
        names = ", ".join(fault.name for fault in FAULTS)
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: no such fault; there are {names}")
    return chosen


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tries", type=click.IntRange(1), default=5, show_default=True, help="How often each fault is done.")
@click.option("--only", "faults", default="", callback=_chosen, help="Names of faults, or of groups of them.")
@click.option("--peer", type=click.Choice(["", "containerd"]), default="", help="Do the same to our agent on it.")
@click.option("--peers-only", is_flag=True, help="Leave our own node out.")
@click.option("--short", is_flag=True, help="Mild and quick faults, as `make test` does them.")
@click.option("--stop-seconds", type=float, help="How long daemons are stopped by SIGSTOP (60).")
@click.option("--files", type=int, help="How many files a hostile container makes (1000000).")
@click.option(
    "--add", "earlier", type=click.Path(path_type=Path, exists=True), multiple=True, help="Add an earlier run's --json."
)
@click.option("--json", "target", type=click.Path(path_type=Path), default=Path("build/faults.json"), show_default=True)
@click.option("--report", "document", type=click.Path(path_type=Path), help="Write the page of results here.")
def main(
    tries: int,
    faults: list[Fault],
    peer: str,
    peers_only: bool,
    short: bool,
    stop_seconds: float | None,
    files: int | None,
    earlier: tuple[Path, ...],
    target: Path,
    document: Path | None,
) -> None:
    """Inject faults into nodes that run pods, and report what they lost, duplicated, restarted and leaked.

    GO_KUBELET=PATH adds the Go kubelet on containerd.

    Exit status: 0 this project's node survived all faults; 1 it did not; 130 interrupted.
    """
    if os.geteuid() != 0:
        raise click.ClickException("must run as root: it starts container runtimes and breaks file systems")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: daemons and mounts are cleaned up
    base = SHORT if short else Options()
    options = base.changed(stop_seconds=stop_seconds, files=files)
    go_kubelet = _go_kubelet()
    subjects = [] if peers_only else [Subject.OURS]
    subjects += [Subject.CONTAINERD] if peer else []
    subjects += [Subject.GO] if go_kubelet else []
    results, minutes = _earlier(earlier)
    begin, interrupted = time.monotonic(), False
    try:
        for subject in subjects:
            bench = Bench(subject, options, go_kubelet, _say, target.parent / "faults")
            for result in bench.run(faults, tries):
                _show(result)
                results.append(result)
    except KeyboardInterrupt:
        interrupted = True
    minutes += (time.monotonic() - begin) / 60
    run = report.Run(tries, options, _versions(go_kubelet), datetime.now(UTC).strftime("%Y-%m-%d"), minutes)
    report.write_json(target, results, run)
    if document is not None and not interrupted:
        report.write_markdown(document, FAULTS, results, run)
    _summary(results, minutes, target, document)
    if interrupted:
        sys.exit(130)
    sys.exit(1 if any(result.failed for result in results if result.subject is Subject.OURS) else 0)


def _earlier(paths: Sequence[Path]) -> tuple[list[Result], float]:
    """Read the results of earlier runs, and their duration in minutes."""
    runs = [report.read_json(path) for path in paths]
    return [result for results, _ in runs for result in results], sum(minutes for _, minutes in runs)


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _show(result: Result) -> None:
    _say("")
    print(f"{result.subject}: {report.line(result)}", flush=True)
    if result.failed or result.count("ended"):
        for each in report.details(result):
            print(f"    {each}", flush=True)


def _summary(results: Sequence[Result], minutes: float, target: Path, document: Path | None) -> None:
    for subject in Subject:
        mine = [result for result in results if result.subject is subject]
        if mine:
            bad = sum(result.failed for result in mine)
            tries = sum(len(result.tries) for result in mine)
            print(f"{subject}: {len(mine)} faults, {tries} tries, {len(mine) - bad} survived, {bad} not")
    print(f"{minutes:.1f} minutes; all values: {target}" + (f"; page: {document}" if document else ""))


def _versions(go_kubelet: Path | None) -> dict[str, str]:
    found = {"pykubelet": __version__, "Python": sys.version.split()[0]}
    programs = dict(_VERSIONS) | ({"Go kubelet": (str(go_kubelet), "--version")} if go_kubelet else {})
    for name, command in programs.items():
        try:
            text = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
        except OSError:
            continue
        version = re.search(r"v?(\d+\.\d+\.\d+\S*)", text)
        if version is not None:
            found[name] = version[1]
    return found


def _go_kubelet() -> Path | None:
    given = os.environ.get("GO_KUBELET", "")
    if not given:
        return None
    path = Path(given).resolve()
    if not os.access(path, os.X_OK):
        raise click.ClickException(f"GO_KUBELET={given}: no executable file is there")
    return path


if __name__ == "__main__":
    try:
        main()
    except PykubeletError as error:
        print(f"not finished: {error}", file=sys.stderr)
        sys.exit(1)
