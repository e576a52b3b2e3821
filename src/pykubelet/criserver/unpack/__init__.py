"""The worker process that unpacks a layer's tar stream into a directory, confined to it by chroot.

``storage`` starts ``python -m pykubelet.criserver.unpack.worker`` once per layer. A layer is untrusted: whatever its
names, links and devices are, the worker cannot reach a file outside. The package imports ``base.errors``,
``base.units`` and ``linux.libc`` only, so that the process starts quickly, and loads all modules before the chroot, as
there are no libraries inside. Start reading at ``worker.py``; then ``stream.py``, ``tarstream.py`` and ``extract.py``.
"""
