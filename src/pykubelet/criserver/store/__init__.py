"""The durable records of sandboxes and containers. Every change is on the disk's log before a call answers.

Names are reserved by unique columns, so two creations of one name cannot both pass, not even around a crash.
"""

from pykubelet.criserver.store.store import Store

__all__ = ["Store"]
