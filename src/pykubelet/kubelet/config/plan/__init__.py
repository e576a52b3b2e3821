"""The requirement of a change of a configuration field, and the resulting steps of a reload. Pure.

Start reading in ``field_effects.py``. Imports ``base``, ``kubelet.config``.
"""
