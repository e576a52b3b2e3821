"""Arithmetic of counters. Pure: no module here reads files, clocks or the network, or awaits."""
