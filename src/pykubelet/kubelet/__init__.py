"""The node agent, cut by control-loop stage: desired → control → actuate → observe → report → serve.

The stages know nothing of each other; they share :mod:`pykubelet.kubelet.types` and meet in ``main.py``.
"""
