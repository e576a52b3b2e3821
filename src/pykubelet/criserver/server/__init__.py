"""CRI v1 over gRPC: one module for each group of calls, which turns messages into calls of the managers and back."""

from pykubelet.criserver.server.service import CriServer, Groups

__all__ = ["CriServer", "Groups"]
