"""Decisions of the status manager: the status of a pod, its patch, and when it is sent.

Pure: no module here reads files, clocks or the network, or awaits.
"""
