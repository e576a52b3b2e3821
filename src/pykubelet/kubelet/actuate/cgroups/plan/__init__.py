"""Names and settings of the cgroups of pods. Pure: no module here reads files, clocks or the network, or awaits."""
