"""Decisions of the history: what a file's records amount to, what is kept, which containers have ended.

Pure: no module here reads files, clocks or the network, or awaits.
"""
