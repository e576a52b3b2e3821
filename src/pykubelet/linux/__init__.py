"""The interface to the kernel and to systemd: cgroups, mounts, namespaces, processes, facts of the machine.

This is the only package that may use ctypes and raw system calls; it imports ``base`` only and knows nothing of
Kubernetes. Functions block: callers on the event loop run them in threads. Start reading at ``namespaces.py`` and
``procfs.py``, then the packages ``cgroups`` and ``filesystems``; ``libc.py`` makes the system calls, ``errors.py`` maps
errno to error classes.
"""
