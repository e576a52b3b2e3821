"""Live reload of the server's configuration: on SIGHUP, and when its file has changed.

``plan`` decides what of a new configuration takes effect without a restart, ``config_watch.py`` notices changes of
files. Built in ``compose/live_configuration.py``. Start reading at ``config_reloader.py``, which reads and applies.
Imports of the server: ``config``.
"""
