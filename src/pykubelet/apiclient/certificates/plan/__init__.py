"""When a certificate is renewed. Pure: no module here reads files, clocks or the network, or awaits."""
