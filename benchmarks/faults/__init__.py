"""Benchmark of reliability: ``python -m benchmarks.faults`` (root), ``make faults``.

Every fault of `table` is injected several times into a node that runs pods. Afterwards the actual state is compared
with the desired state: pods that were lost, duplicated, restarted without cause or leaked, and the time to recover.
The result is ``docs/reliability.md``. Start with `runner`; `fault` and `model` define the terms.
"""
