"""Stage 2, control: the sync loop (``sync``) and one worker per pod (``workers``).

Imports ``kubelet/types``, ``models`` and ``base``, and no other stage. Start reading in ``sync/sync_loop.py``.
"""
