"""The command line: one module per command in ``commands``, and what they share.

``arguments`` reads what the user names, ``client`` talks to the agent and to runtimes, ``output`` prints, ``changes``
edits manifests and waits, ``reset`` cleans the machine; ``plan`` is pure. ``commands/node/run.py`` turns flags into
settings and starts the agent, ``commands/node/criserver.py`` the runtime server, and ``embedded_server.py`` the one
beside the agent; all other commands are clients. May import everything but ``testing``. Start reading in ``app.py``,
the entry point: it imports a command only when it is used.
"""

from pykubelet.cli.entry import main

__all__ = ["main"]
