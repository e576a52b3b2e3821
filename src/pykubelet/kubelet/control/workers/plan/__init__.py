"""Decisions of a pod worker: its life cycle, and the deadline and rejection of its pod.

Pure: no module here reads files, clocks or the network, or awaits.
"""
