"""The worker process that turns a layer's tar stream into a directory, locked into that directory by chroot.

``storage`` starts ``python -m pykubelet.criserver.unpack.worker`` once per layer. A layer is written by strangers:
whatever its names, links and devices say, the worker cannot reach a file outside. The package imports next to
nothing, so that the process starts quickly, and everything before the chroot, as there is no library behind it.
"""
