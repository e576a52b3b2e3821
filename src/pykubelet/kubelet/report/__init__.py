"""Stage 5, reporting: publishes what the agent knows about pods and the node.

``status`` computes and delivers pod statuses, ``events`` records events, ``timeline`` measures pod starts, ``metrics``
holds the Prometheus metrics and ``node`` owns the Node, Lease and CSINode objects. ``server`` (local socket, health),
``nodeserver`` (:10250) and ``streamproxy`` (exec, attach, port-forward) serve them.

This stage imports ``kubelet/types``, ``apiclient``, ``models`` and ``base``, and no other stage. Start reading in
``status/decide.py`` for what users see of a pod, and in ``server/serving.py`` for how a request is served.
"""
