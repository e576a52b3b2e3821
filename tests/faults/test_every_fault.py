"""The short form of the fault benchmark: every fault twice, with mild options, on ``pykubelet criserver``."""

from collections.abc import Iterator

import pytest

from benchmarks.faults import report
from benchmarks.faults.fault import Fault
from benchmarks.faults.model import Subject
from benchmarks.faults.options import SHORT
from benchmarks.faults.runner import Bench
from benchmarks.faults.table import FAULTS

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.serves, pytest.mark.timeout(300)]

_TRIES = 2
_ORDER = sorted(FAULTS, key=lambda fault: fault.in_cluster)
"""Faults in order; those of a cluster come last, because they need another node."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One node for all faults, until one of them makes it unusable."""
    made = Bench(Subject.OURS, SHORT, None, print, tmp_path_factory.mktemp("logs"))
    yield made
    made.close()


@pytest.mark.parametrize("fault", _ORDER, ids=lambda fault: fault.name)
def test_node_after_fault_is_as_wanted(bench: Bench, fault: Fault) -> None:
    result = bench.measure(fault, _TRIES)
    print(report.line(result))
    assert not result.failed, "\n".join(report.details(result))


def test_nodes_after_all_faults_have_nothing_left(bench: Bench) -> None:
    result = bench.finish()
    assert not result.failed, "\n".join(report.details(result))
