"""The node agent, cut by control-loop stage: desired → control → actuate → observe → report → serve.

The stages know nothing of each other; they share :mod:`pykubelet.kubelet.types` and meet in ``compose/agent.py``, which
``main.py`` runs. Start reading at ``control/sync/sync_loop.py``, and with ARCHITECTURE.md. Imports beside it:
``apiclient``, ``base``, ``linux``, ``models``, ``pb``.
"""
