"""The frame of a daemon process: its log, its event loop, notices to systemd, and a bounded shutdown.

Used by the commands ``run`` and ``criserver`` around the work of either daemon. Start reading in
``run_until_signal.py``, then ``shutdown.py``. Imports beside it: ``concurrency``, ``files``.
"""
