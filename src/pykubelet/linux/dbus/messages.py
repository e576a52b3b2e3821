"""Messages of D-Bus, for the connections to systemd and to the message bus: limits, and errors of peers."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from jeepney.low_level import HeaderFields, Message

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient

MAX_MESSAGE: Final = 1 << 27
"""The longest D-Bus message of the specification, in bytes."""
_ERRORS: Final[Mapping[str, type[PykubeletError]]] = {
    "org.freedesktop.systemd1.NoSuchUnit": NotFound,
    "org.freedesktop.systemd1.UnitExists": Conflict,
    "org.freedesktop.DBus.Error.InvalidArgs": Invalid,
    "org.freedesktop.DBus.Error.AccessDenied": Permanent,
    "org.freedesktop.DBus.Error.UnknownProperty": Invalid,
    "org.freedesktop.DBus.Error.PropertyReadOnly": Invalid,
}


@contextmanager
def malformed(what: str) -> Iterator[None]:
    """Raise Invalid, which begins with ``what``, for the errors of jeepney's encoder and decoder."""
    try:
        yield
    except (struct.error, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise Invalid(f"{what}: {error!r}") from error


def refusal(peer: str, member: str, answer: Message) -> PykubeletError:
    """Return the error for an error message with which ``peer`` (``systemd``) replied to a call of ``member``."""
    text = answer.body[0] if answer.body else ""
    name = answer.header.fields.get(HeaderFields.error_name, "")
    kind = _ERRORS.get(name, Transient)
    return kind(f"{peer} refused {member}: {text} ({name})")
