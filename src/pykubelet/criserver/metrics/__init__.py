"""Metrics of the server itself: its calls, and what it does for them. Off unless the configuration has an address.

The names are containerd's where it has the same measurement, else ``pykubelet_criserver_*``. Used by ``compose`` and
``main.py`` alone: other components get a function that observes. Imports of the server: ``cni``, ``config``,
``sandbox``, ``types``. Start reading at ``server_metrics.py``.
"""
