"""The container runtime server: serves CRI v1 on a unix socket to any kubelet.

The server runs no container itself: an OCI runtime (runc, crun) creates each one, a conmon process monitors it, and CNI
plugins attach pods to the network. Records of all sandboxes and containers are stored on disk, so the server can be
killed and restarted at any moment.

``server`` (gRPC) calls ``sandbox`` and ``container``, which use ``spec``, ``conmon``, ``oci``, ``cni``, ``netns`` and
``storage``; ``images`` and ``unpack`` fetch images; ``store`` holds the records; ``streaming``, ``stats`` and
``event_hub.py`` serve clients. ``wiring`` composes them and ``main`` runs them. Nothing here imports
``pykubelet.kubelet``. Start reading at ``server/groups/containers.py`` and ``container/create.py``.
"""
