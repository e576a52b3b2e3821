"""Stage 4, observe: runtime events (``pleg``), probes, node pressure and eviction, runtime health, usage (``stats``).

Imports ``kubelet/types``, ``linux``, ``models`` and ``base``, and no other stage. Start reading in ``pleg/pleg.py``.
"""
