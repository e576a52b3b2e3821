"""Identifiers of sandboxes and containers."""

import secrets
from typing import NewType

SandboxID = NewType("SandboxID", str)
ContainerID = NewType("ContainerID", str)


def new_id() -> str:
    """Create an id: 64 random hexadecimal digits, as with every CRI runtime."""
    return secrets.token_hex(32)
