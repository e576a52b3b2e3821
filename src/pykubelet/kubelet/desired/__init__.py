"""Stage 1, desired: the sources of pods, admission, the desired pods, and the objects that they refer to.

Imports ``kubelet/types``, ``apiclient``, ``models`` and ``base``, and no other stage. Start reading
in ``sources/mux.py``.
"""
