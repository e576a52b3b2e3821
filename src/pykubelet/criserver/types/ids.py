"""Identifiers of sandboxes and containers."""

import secrets
from typing import NewType

SandboxID = NewType("SandboxID", str)
ContainerID = NewType("ContainerID", str)


def new_id() -> str:
    """64 random hexadecimal digits, as every CRI runtime gives."""
    return secrets.token_hex(32)
