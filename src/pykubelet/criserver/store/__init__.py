"""The durable records of sandboxes and containers. Every change is committed to disk before a call returns.

Names are reserved by unique columns, so two creations of one name cannot both succeed, not even around a crash. Imports
of the server: ``types``. Start reading at ``store.py``; ``database.py`` wraps SQLite, ``writer.py`` queues changes,
``copies.py`` holds a copy of each record.
"""

from pykubelet.criserver.store.store import Store

__all__ = ["Store"]
