"""Pure decisions of a graceful node shutdown: which pods end together, and with which grace period."""
