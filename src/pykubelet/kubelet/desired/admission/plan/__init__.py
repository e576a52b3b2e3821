"""The rules of admission. Pure: no module here reads files, clocks or the network, or awaits."""
