"""What a change of a configuration field needs, and what a reload therefore does. Pure.

Start reading in ``field_effects.py``. Imports ``kubelet.config``.
"""
