"""Inject faults into a node and measure its recovery. Blocking."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.faults.fault import Fault
from benchmarks.faults.judge import ObservedNode, compare
from benchmarks.faults.model import Restarts, Result, Subject, TryResult
from benchmarks.faults.node import Node
from benchmarks.faults.options import Options
from pykubelet.base.errors import PykubeletError
from pykubelet.testing.isolation import claim
from pykubelet.testing.patience import PATIENCE

_SET_UP_SECONDS = 60.0
_CLEAR_SECONDS = 60.0
_LEAK_SECONDS = 45.0
"""Housekeeping looks for orphans every ten seconds."""
_COLLECTION_SECONDS = 150.0
"""Two garbage collections of the Go kubelet: the first one removes containers, the second one their sandboxes."""
_BYSTANDER_SECONDS = 15.0
_CONFIRM_SECONDS = 0.3
"""Seconds after which the state must still be the desired one."""
ALL = "all"
"""Name of the common result of faults that share their pods."""
_SHOWN = 40
"""Number of leaks whose names are kept."""
_POLL_SECONDS = 0.05
_ERRORS = (PykubeletError, AssertionError, OSError, TimeoutError, subprocess.SubprocessError)
Say = Callable[[str], None]


class Bench:
    """One subject's node, which is replaced by a new one when a fault has made it unusable."""

    def __init__(self, subject: Subject, options: Options, go_kubelet: Path | None, say: Say, logs: Path) -> None:
        self._subject = subject
        self._options = options
        self._go_kubelet = go_kubelet
        self._say = say
        self._logs = logs
        self._node: Node | None = None
        self._rest = Result(ALL, subject, [TryResult()])

    def run(self, faults: Sequence[Fault], tries: int) -> Iterator[Result]:
        """Inject the faults that apply to the subject; yields their results."""
        # Faults of a cluster come last: they need another node.
        chosen = sorted(
            (fault for fault in faults if self._subject in fault.subjects), key=lambda each: each.in_cluster
        )
        try:
            for number, fault in enumerate(chosen, 1):
                self._say(f"{self._subject}: {number}/{len(chosen)} {fault.name}")
                yield self.measure(fault, tries)
            if self._options.share:
                yield self.finish()
        finally:
            self.close()

    def close(self) -> None:
        """Remove the node completely; the next fault creates another one."""
        node, self._node = self._node, None
        if node is not None:
            node.destroy()
            node.isolation.destroy()

    def measure(self, fault: Fault, tries: int) -> Result:
        """Inject one fault several times."""
        if self._node is not None and self._node.in_cluster != fault.in_cluster:
            self.finish()
            self.close()
        result = Result(fault.name, self._subject)
        for _ in range(tries):
            begin = time.monotonic()
            one = self._attempt(fault)
            one.seconds = time.monotonic() - begin
            result.tries.append(one)
            if one.lost:
                self._keep_logs(fault.name)
                self.close()
        if result.failed or not self._options.share:
            self._clear(result)
        return result

    def finish(self) -> Result:
        """Remove the pods that faults have shared; returns their leaks that earlier calls have not reported."""
        self._clear(self._rest)
        return self._rest

    def _attempt(self, fault: Fault) -> TryResult:
        try:
            return self._try(self._made(fault), fault)
        except _ERRORS as error:
            return TryResult(lost=[f"{type(error).__name__}: {error}"])

    def _made(self, fault: Fault) -> Node:
        if self._node is None:
            node = self._node = Node(claim(), self._subject, self._options, self._go_kubelet, fault.in_cluster)
            node.start()
        return self._node

    def _try(self, node: Node, fault: Fault) -> TryResult:
        if not node.wanted:
            node.populate()
        ready = node.settle(_SET_UP_SECONDS)
        if ready.reasons or ready.seen is None:
            return TryResult(lost=[f"before the fault: {reason}" for reason in ready.reasons])
        node.complaints.clear()
        with fault.act(node):
            stalled = self._during(node, fault)
        ended = node.revive()
        if not node.options.back_off:
            node.drop_extras()
            node.roll()
        settled = node.settle(fault.limit, fault.restarts)
        recovery = settled.seconds
        if not settled.reasons:
            time.sleep(_CONFIRM_SECONDS)
            settled = node.settle(fault.limit, fault.restarts)
        verdict = compare(ready.seen, settled.seen or ObservedNode(), node.wanted, fault.restarts)
        verdict.lost = [*settled.reasons, *stalled, *node.complaints]
        verdict.duplicated += settled.doubled
        verdict.ended = ended
        verdict.recovery = None if settled.reasons else recovery
        self._renew(node, fault, verdict)
        return verdict

    def _during(self, node: Node, fault: Fault) -> list[str]:
        """Replace a pod while the fault lasts; returns the errors."""
        new = node.roll()
        if not fault.bystanders:
            time.sleep(fault.hold * node.options.hold)
            return []
        deadline = time.monotonic() + _BYSTANDER_SECONDS * PATIENCE
        while time.monotonic() < deadline:
            seen = node.look()
            if seen is not None and (status := seen.statuses.get(new)) is not None and status.ready:
                return []
            time.sleep(_POLL_SECONDS)
        return [f"{new}: did not start while the fault lasted"]

    def _renew(self, node: Node, fault: Fault, verdict: TryResult) -> None:
        """Restore the state in which the next try begins: all pods, and no others."""
        added = node.drop_extras()
        if fault.restarts is not Restarts.NONE:
            verdict.lost += [f"after the fault: {reason}" for reason in node.clear(_CLEAR_SECONDS).reasons]
        elif added:
            verdict.lost += [f"after the fault: {reason}" for reason in node.settle(_CLEAR_SECONDS).reasons]
        node.cleanups.close()

    def _clear(self, result: Result) -> None:
        """Remove the pods and count their leaks."""
        if self._node is None:
            return
        left = self._node.clear(_CLEAR_SECONDS)
        result.tries[-1].lost += [f"removal: {reason}" for reason in left.reasons]
        seconds = _COLLECTION_SECONDS if self._subject.collects_later else _LEAK_SECONDS
        leaks = self._node.leaks(seconds * PATIENCE)
        for name, count in leaks.items():
            result.leaked[name.partition(": ")[0]] += count
            result.leaks += [name] if len(result.leaks) < _SHOWN else []
        if result.failed:
            self._keep_logs(result.fault)
            self.close()

    def _keep_logs(self, fault: str) -> None:
        """Save the logs of a node's daemons before the node is replaced."""
        if self._node is None:
            return
        directory = self._logs / f"{self._subject.name.lower()}-{fault}"
        directory.mkdir(parents=True, exist_ok=True)
        for path in self._node.home.glob("?/*.log"):
            shutil.copy(path, directory / path.name)
