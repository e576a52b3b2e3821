"""Measure the agent on a real runtime: ``python -m benchmarks`` (root), ``make bench``.

It starts private containerds, so nothing else on the machine is touched. The docstring of the module that takes a
figure defines it: `start`, `restart`, `idle`, `cri`, `images`, `pulls`, `commands`, `through_api` and `played`. The
goals are in ``budgets.toml``. Start with `run`.
"""
