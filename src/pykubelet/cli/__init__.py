"""The command line: one module per command, and the helpers that they share.

Start reading in ``app.py``, the entry point: it imports each command only when it is used. ``commands/run.py`` turns
flags into settings and starts the agent, ``commands/criserver.py`` the runtime server; all other commands are clients,
of the agent's local API (``local_api.py``) or of a runtime's image service (``image_client.py``). May import everything
but ``testing``.
"""

from pykubelet.cli.app import main

__all__ = ["main"]
