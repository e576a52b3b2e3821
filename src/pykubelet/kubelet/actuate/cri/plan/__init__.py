"""Conversion of CRI messages. Pure: no module here reads files, clocks or the network, or awaits."""
