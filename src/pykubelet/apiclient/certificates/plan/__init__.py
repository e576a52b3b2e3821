"""When a certificate is renewed, and which names it has. Pure: no module here reads files or clocks, or awaits.

Imports ``apiclient``, ``base``, ``models``; start reading in ``renewal.py``.
"""
