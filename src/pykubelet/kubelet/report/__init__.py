"""Stage 5, reporting: publishes what the agent knows about pods and the node.

``status`` computes and delivers pod statuses, ``events`` records events, ``timeline`` measures pod starts, ``history``
keeps what has happened to a pod and ``explain`` says why it is as it is, ``metrics`` holds the Prometheus metrics and
``node`` owns the Node, Lease and CSINode objects. ``serve`` answers requests for them.

This stage imports ``kubelet/types``, ``kubelet/telemetry.py``, ``apiclient``, ``models`` and ``base``, and no other
stage. Start reading in ``status/plan/pod_status.py`` for what users see of a pod.
"""
