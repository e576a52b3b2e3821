"""Parsing of the kernel's files, and conversion of snapshots to what clients read.

Pure: no module here reads files, clocks or the network, or awaits.
"""
