"""Settings of gRPC's C core, which reads them from the environment when ``grpc`` is imported."""

import os


def configure(verbosity: str) -> None:
    """Call it before anything imports ``grpc``. ``verbosity``: ``NONE`` or ``ERROR``; routine news go to stderr.

    Fork handlers are off: they wait for the core's threads before each fork, and wait for ever once the core has failed
    to start one, as it does at a limit of processes. Python forks only where vfork fails, at that limit; the child
    executes another program at once and needs no gRPC.
    """
    os.environ.setdefault("GRPC_VERBOSITY", verbosity)
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
