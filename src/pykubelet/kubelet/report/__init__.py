"""Stage 5, tell the world: pod status, events, timeline, metrics and the local API."""
