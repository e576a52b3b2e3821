"""The final message to a client about its command: text in the old protocols, a Kubernetes Status since v4. Pure."""

import json
from typing import Final

from pykubelet.base.units import KIB
from pykubelet.criserver.streaming.streaming_types import Size

MAX_SIZE: Final = 4 * KIB
"""Limit of a resize message in bytes."""


def status(exit_code: int, failure: str) -> bytes:
    """A Kubernetes Status object (k8s.io/apimachinery, ``NonZeroExitCode``); ``failure`` if there is no exit code."""
    if failure:
        return json.dumps({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": failure}).encode()
    if exit_code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    details = {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]}
    message = _sentence(exit_code)
    body = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": details}
    return json.dumps(body).encode()


def text(exit_code: int, failure: str) -> bytes:
    """The message of the protocols before v4; empty on success."""
    return (failure or (_sentence(exit_code) if exit_code else "")).encode()


def _sentence(exit_code: int) -> str:
    return f"command terminated with non-zero exit code: {exit_code}"


def parse_size(data: bytes) -> Size | None:
    """Parse a resize message; None if it is invalid."""
    if len(data) > MAX_SIZE:
        return None
    try:
        document = json.loads(data)
        width, height = int(document["Width"]), int(document["Height"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    return Size(width, height) if 0 < width < 65536 and 0 < height < 65536 else None
