"""The container runtime server: serves CRI v1 on a unix socket to any kubelet.

The server runs no container itself: an OCI runtime (runc, crun) creates each one and a conmon process monitors it, or a
shim of containerd does both, and CNI plugins attach pods to the network. Records of all sandboxes and containers are
stored on disk, so the server can be killed and restarted at any moment.

``server`` (gRPC) calls ``sandbox`` and ``container``, which use ``spec``, ``cni``, ``netns``, ``storage`` and the
``runtimes`` (``oci`` with ``conmon``, or ``shim``); ``images`` and ``unpack`` fetch images; ``record_store``
holds the records; ``streaming``, ``stats`` and ``event_hub.py`` serve clients; ``config`` is read again by ``reload``.
``embedded`` runs in an agent that starts the server itself. ``compose`` composes them and ``main`` runs them. Nothing
here imports ``pykubelet.kubelet``. Start reading at ``server/cri_calls/containers.py`` and ``container/create.py``.
"""
