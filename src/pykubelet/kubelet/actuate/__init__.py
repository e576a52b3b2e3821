"""Stage 3, actuate: makes the node match the desired pods: sandboxes, containers, images, volumes, cgroups.

Contains ``podruntime`` (sandboxes and containers), ``cri_messages`` (CRI messages, pure), ``cri`` (CRI client),
``images``, ``volumes``, ``cgroups``, ``userns``, ``logs`` (rotation) and ``host`` (facts). ``assembly.py``
composes them; ``pod_resources.py`` prepares and releases cgroup, volumes and user namespace of a pod.

May import ``kubelet/types``, ``kubelet/config``, ``linux``, ``pb``, ``models`` and ``base``, never another stage.
Start reading in ``podruntime/pod_runtime.py``.
"""
