"""Decisions of housekeeping: which pods are orphans.

Pure: no module here reads files, clocks or the network, or awaits.
"""
