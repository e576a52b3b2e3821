"""Stage 1, what should run: sources of manifests, the pods they give, and the objects pods refer to."""
