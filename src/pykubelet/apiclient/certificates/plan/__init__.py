"""The time to renew a certificate, and the names to request. Pure: no module here reads files or clocks, or awaits.

Imports ``apiclient``, ``base``, ``models``; start reading in ``renewal.py``.
"""
