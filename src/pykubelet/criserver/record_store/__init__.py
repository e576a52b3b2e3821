"""The durable records of sandboxes and containers. Every change is committed to disk before a call returns.

Names are reserved by unique columns, so two creations of one name cannot both succeed, not even around a crash. Imports
of the server: ``types``. Start reading at ``store.py``; ``stored_records.py`` has the changes of one kind of records,
``record_table.py`` their table, ``database.py`` wraps SQLite in a thread of its own, ``writer.py`` queues changes,
``copies.py`` holds a copy of each record, ``damaged_files.py`` bounds the databases that were set aside.
"""

from pykubelet.criserver.record_store.store import Store
from pykubelet.criserver.record_store.stored_records import RecordChanges, StoredRecords

__all__ = ["RecordChanges", "Store", "StoredRecords"]
