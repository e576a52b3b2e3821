"""The rules of a check. Pure: no module here reads files, clocks or the network, or awaits."""
