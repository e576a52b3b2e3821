"""The error for a request that the agent has rejected, in a module that is quick to import."""

from pykubelet.base.errors import Invalid


class RejectedRequest(Invalid):
    """The agent cannot do what was requested, for example because a container is not running."""
