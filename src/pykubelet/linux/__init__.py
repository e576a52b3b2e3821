"""The edge to the kernel: cgroups, mounts, namespaces, pidfds, facts of the machine.

The only package that may use ctypes and raw system calls. Functions block; callers on the event loop run
them in threads. Nothing here knows Kubernetes.
"""
