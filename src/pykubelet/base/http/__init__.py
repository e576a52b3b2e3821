"""HTTP beyond aiohttp: GET requests without trust in the response, limits, upgrades, and clients that hang up.

Probes, hooks, the registry client and the streaming servers use it. Start reading in ``http_get.py``, and for
connections that leave HTTP in ``upgrade.py``. Imports no package beside it.
"""
