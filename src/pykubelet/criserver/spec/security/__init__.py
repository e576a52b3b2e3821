"""Rights of a container: capabilities, seccomp, AppArmor and SELinux labels in its specification. Pure.

Called by the modules of ``spec`` and by ``container.bundle``. Start reading at ``seccomp.py``. Imports no package
beside it.
"""
