"""Composition of the server: builds the components and connects them. It contains no rules; no component imports it.

``open_machine.py`` opens what belongs to the machine, ``images.py`` the image store, ``pods.py`` builds sandboxes and
containers, ``calls.py`` the groups of CRI calls. Start reading in ``criserver/main.py``, which uses them and runs the
result. Imports of the server: ``cni``, ``config``, ``conmon``, ``container``, ``images``, ``metrics``, ``netns``,
``oci``, ``record_store``, ``reload``, ``runtimes``, ``sandbox``, ``server``, ``shim``, ``spec``, ``stats``,
``storage``, ``streaming``, ``types``, ``unpack``.
"""
