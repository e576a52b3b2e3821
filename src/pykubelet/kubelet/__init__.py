"""The node agent, cut by control-loop stage: desired → control → actuate → observe → report → serve.

``desired`` finds out which pods are wanted, ``control`` gives each to its worker, ``actuate`` changes the machine (and
decides on restarts and their back-off), ``observe`` looks at it, ``report`` tells what it knows and ``serve`` answers.
The stages know nothing of each other; they share :mod:`pykubelet.kubelet.types` and meet in ``compose/agent.py``, which
``main.py`` runs with a ``config``; ``reload`` applies its changes. Start reading at ``control/sync/sync_loop.py``, and
with ARCHITECTURE.md. Imports beside it: ``apiclient``, ``base``, ``linux``, ``models``, ``pb``.
"""
