"""Measures the agent on a real runtime: ``python -m benchmarks`` (root), ``make bench``.

It starts private containerds of its own, so nothing else on the machine is touched. What each figure means and how
it is taken is said in the module that takes it: `start`, `restart` and `idle`. The goals are in ``budgets.toml``.
"""
