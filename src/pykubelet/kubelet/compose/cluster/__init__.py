"""Composition of node mode: the API server's clients and objects, certificates, and what reports to it.

``entry.py`` and ``cluster_interfaces.py`` may be imported by any agent; ``entry.py`` imports the other modules only
with a kubeconfig. Start reading in ``build.py``.
"""
