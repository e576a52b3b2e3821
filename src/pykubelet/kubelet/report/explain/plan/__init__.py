"""The explanation of a pod's state. Pure: no module here reads files, clocks or the network, or awaits."""
