"""Resources of containers, pods and the node: requests and limits, QoS, resizes, allocatable, and measured usage.

Imports ``models`` and ``base``. Start reading in ``pod_requests.py`` (what pods ask for) and ``stats.py`` (what they
use).
"""
