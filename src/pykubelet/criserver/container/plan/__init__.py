"""The life cycle of a container. Pure: no module here reads files, clocks or the network, or awaits."""
