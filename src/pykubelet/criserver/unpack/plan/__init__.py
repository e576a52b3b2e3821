"""Maps of sparse files. Pure: no module here reads files, clocks or the network, or awaits."""
