"""User and password as base64: ``auth`` of Docker's configuration, and HTTP's Basic scheme (RFC 7617). Pure."""

import base64
import binascii

from pykubelet.base.errors import Invalid


def decode(text: str) -> tuple[str, str]:
    """Decode base64 of ``username:password`` (padded, without blanks). Raises Invalid; the text is in no message."""
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise Invalid("not base64 of username:password") from error
    username, colon, password = decoded.partition(":")
    if not colon:
        raise Invalid("not base64 of username:password")
    return username, password


def encode(username: str, password: str) -> str:
    """Encode ``username:password`` as base64."""
    return base64.b64encode(f"{username}:{password}".encode()).decode()
