"""Which proxy leads to the API server. Pure: no module here reads the environment, files or the network."""
