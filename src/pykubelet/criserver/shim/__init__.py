"""Shims of containerd's runtime v2: the second way in which the processes of containers run.

A shim is a process of its own for each sandbox, which outlives this server: Kata, gVisor, runwasi and others are shims.
``shim_runtime.py`` is the ``ContainerRuntime``; ``shim_program.py`` runs the shim's program, ``task_client.py`` calls
its task API over ttRPC (``ttrpc_*.py``), ``conmon_log_writer.py`` has conmon write the logs of containers,
``shim_log_files.py`` bounds the shims' own, ``shim_events.py`` receives events. Used by ``compose`` and ``main``; a
server without such a handler loads these two only.
Imports of the server: ``conmon``, ``oci``, ``runtimes``, ``streaming``, ``types``. Start reading at
``shim_runtime.py``.
"""
