"""The command line: argv → configuration → run, and the user's questions to a running agent."""

from pykubelet.cli.app import main

__all__ = ["main"]
