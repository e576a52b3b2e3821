"""Decisions about objects that pods refer to. Pure: no module here reads files, clocks or the network, or awaits."""
