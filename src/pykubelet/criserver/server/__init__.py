"""CRI v1 over gRPC: one module for each group of calls, which converts messages to calls of the managers and back.

Imports of the server: ``config``, ``container``, ``images``, ``reload``, ``runtimes``, ``sandbox``,
``spec``, ``stats``, ``streaming``, ``types``. Only the composition root imports it. ``errors.py`` maps errors to gRPC
codes, ``view.py`` records to messages. Start reading at ``cri_calls/containers.py``: ``register`` lists the calls.
"""

from pykubelet.criserver.server.grpc_server import CriServer, Groups

__all__ = ["CriServer", "Groups"]
