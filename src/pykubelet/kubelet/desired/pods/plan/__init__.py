"""Decisions about mirror pods. Pure: no module here reads files, clocks or the network, or awaits."""
