"""Pure rules of the image policy."""
