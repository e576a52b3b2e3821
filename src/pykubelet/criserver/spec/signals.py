"""Converts signal names of images and requests. Pure."""

import signal
from functools import lru_cache

from pykubelet.base.errors import Invalid
from pykubelet.pb import runtime_v1_pb2 as pb

DEFAULT = "SIGTERM"


def stop_signal(config: pb.ContainerConfig, image: str) -> str:
    """The name of the signal that stops the container: the request's, the image's, or SIGTERM.

    Invalid: the request's signal is unknown.
    """
    if config.stop_signal != pb.RUNTIME_DEFAULT:
        value = pb.Signal.DESCRIPTOR.values_by_number.get(config.stop_signal)
        if value is None:
            raise Invalid(f"unknown stop signal {config.stop_signal}")
        return value.name.replace("PLUS", "+").replace("MINUS", "-")
    return image or DEFAULT


def signal_number(name: str) -> int:
    """Convert ``SIGTERM``, ``TERM``, ``15`` or ``SIGRTMIN+3`` to a number. Invalid: there is no such signal."""
    text = name.strip().upper()
    try:
        if text.isdecimal():
            number = int(text)
        else:
            base, sign, offset = _split(text if text.startswith("SIG") else f"SIG{text}")
            number = signal.Signals[base].value + (int(sign + offset) if offset else 0)
    except (KeyError, ValueError) as error:
        raise Invalid(f"unknown signal {name!r}") from error
    if not 1 <= number <= 64:
        raise Invalid(f"unknown signal {name!r}")
    return number


@lru_cache(maxsize=256)
def signal_value(name: str) -> "pb.Signal.ValueType":
    """Convert a signal's name to its CRI value; RUNTIME_DEFAULT if CRI has none."""
    try:
        number = signal_number(name)
    except Invalid:
        return pb.RUNTIME_DEFAULT
    for value in pb.Signal.DESCRIPTOR.values:
        text = value.name.replace("PLUS", "+").replace("MINUS", "-")
        if value.number and signal_number(text) == number:
            return pb.Signal.ValueType(value.number)
    return pb.RUNTIME_DEFAULT


def _split(text: str) -> tuple[str, str, str]:
    for sign in "+-":
        base, found, offset = text.partition(sign)
        if found:
            return base, sign, offset
    return text, "", ""
