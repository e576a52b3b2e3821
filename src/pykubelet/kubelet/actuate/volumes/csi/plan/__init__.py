"""Rules for CSI calls. Pure: no module here reads files, clocks or the network, or awaits."""
