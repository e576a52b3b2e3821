"""What a node survives: ``python -m benchmarks.faults`` (root), ``make faults``.

Every fault of `table` is done several times to a node that runs pods, and afterwards the node is compared with what is
wanted of it: pods lost, run twice, restarted for no cause, left behind on the machine; and how long it took to recover.
The result is ``docs/reliability.md``.
"""
