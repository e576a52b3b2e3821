"""A Debian machine with cgroup v2 and systemd, emulated by qemu, for ``make test-v2``.

``image.py`` builds its root disk from the machine's apt sources, ``project.py`` the disk with this source tree and its
virtual environment, and ``machine.py`` boots both and runs commands in it. Start reading in ``machine.py``.
"""
