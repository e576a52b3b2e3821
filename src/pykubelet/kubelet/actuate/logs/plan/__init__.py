"""Names and order of the files of one log. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``kubelet.actuate``; start reading in ``log_names.py``.
"""
