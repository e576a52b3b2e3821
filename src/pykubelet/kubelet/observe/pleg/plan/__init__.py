"""Decisions of PLEG: what has changed between two lists of the runtime's pods.

Pure: no module here reads files, clocks or the network, or awaits.
"""
