"""The interface to the kernel and to systemd: cgroups, mounts, namespaces, processes, facts of the machine.

This is the only package that may use ctypes and raw system calls; it imports ``base`` only and knows nothing of
Kubernetes. Functions block: callers on the event loop run them in threads. Start reading at ``cgroups``, ``mounts``,
``namespaces`` and ``procfs``; ``libc`` makes the system calls, ``errors`` maps errno to error classes.
"""
