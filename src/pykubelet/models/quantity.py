"""Amounts of resources as Kubernetes writes them: ``100m`` CPU, ``1Gi`` of memory, ``1e3``.

Values are exact integers of nano units, the finest that the API keeps. The rules are those of apimachinery's
``resource.Quantity``: finer values round away from zero to a nano, larger ones are cut to 2⁶³-1, and a
whole-unit reading rounds away from zero, so that no pod gets less than it asked for.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.models.scalars import Quantity

NANO: Final = 1_000_000_000
MAX_VALUE: Final = (1 << 63) - 1
_MAX_TEXT: Final = 256
_MAX_EXPONENT: Final = 300
_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)",
    re.ASCII,
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_NAMES: Final = {bits: suffix for suffix, bits in _BINARY.items()}


class Notation(StrEnum):
    """The family of suffixes an amount was written with; it is written back with the same."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class Amount(Struct, frozen=True):
    """An exact amount in nano units. ``str`` gives the canonical text."""

    nano: int
    notation: Notation = Notation.DECIMAL

    @property
    def value(self) -> int:
        """Whole units (bytes, counts, CPUs), rounded away from zero."""
        return _divide(self.nano, NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide(self.nano, NANO // 1000)

    def __str__(self) -> str:
        # Below 1024 a binary suffix could only blur the amount, so such amounts are written in decimal.
        if self.notation is Notation.BINARY and abs(self.nano) >= 1024 * NANO:
            number, bits = self.value, 0
            while number % 1024 == 0 and bits < 60:
                number, bits = number // 1024, bits + 10
            return f"{number}{_BINARY_NAMES.get(bits, '')}"
        if self.nano == 0:
            return "0"
        number, exponent = self.nano, -9
        while number % 1000 == 0 and exponent < 18:
            number, exponent = number // 1000, exponent + 3
        if self.notation is Notation.EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_NAMES[exponent]}"


def parse(quantity: Quantity) -> Amount:
    """Read a quantity. Raises Invalid, which says what was expected."""
    if isinstance(quantity, int) and abs(quantity) > MAX_VALUE:
        quantity = MAX_VALUE if quantity > 0 else -MAX_VALUE  # int-to-text conversion has a limit of its own
    text = str(quantity).strip()
    found = _read(text) if len(text) <= _MAX_TEXT and not isinstance(quantity, bool) else None
    if found is None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise Invalid(
            f"{shown!r} is not a quantity: write a number with an optional suffix, "
            "m for thousandths, k, M, G, T for powers of 1000 or Ki, Mi, Gi, Ti for powers of 1024"
        )
    return found


@lru_cache(maxsize=512)
def _read(text: str) -> Amount | None:
    """The amount that a text gives; None if it is not a quantity. A pod's few amounts are read at every step."""
    match = _SYNTAX.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        return None
    part = match["part"] or ""
    suffix = match["suffix"]
    exponent, bits, notation = 0, 0, Notation.DECIMAL
    if suffix in _BINARY:
        bits, notation = _BINARY[suffix], Notation.BINARY
    elif suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
    else:
        # Beyond these the amount is at its cap or its floor anyhow; a huge power of ten must not be computed.
        exponent = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(suffix[1:])))
        notation = Notation.EXPONENT
    digits = int(match["whole"] + part) << bits
    exponent += 9 - len(part)
    nano = digits * 10**exponent if exponent >= 0 else _divide(digits, 10**-exponent)
    nano = min(nano, MAX_VALUE * NANO)
    return Amount(-nano if match["sign"] == "-" else nano, notation)


def to_milli(quantity: Quantity) -> MilliCPU:
    """The quantity in thousandths, as CPU is counted; rounded up. Raises Invalid."""
    return MilliCPU(parse(quantity).milli)


def to_bytes(quantity: Quantity) -> Bytes:
    """The quantity in bytes; rounded up. Raises Invalid."""
    return Bytes(parse(quantity).value)


def to_value(quantity: Quantity) -> int:
    """The quantity in whole units, for countable resources; rounded up. Raises Invalid."""
    return parse(quantity).value


def canonical(quantity: Quantity) -> str:
    """The quantity as the API server would write it: ``1500m`` for 1.5, ``1536Mi`` for 1.5Gi. Raises Invalid."""
    return str(parse(quantity))


def from_milli(milli: int) -> str:
    """The canonical text of thousandths: 250 → ``250m``, 2000 → ``2``."""
    return str(Amount(milli * (NANO // 1000)))


def from_bytes(count: int) -> str:
    """The canonical text of bytes, with binary suffixes: 1536·2²⁰ → ``1536Mi``."""
    return str(Amount(count * NANO, Notation.BINARY))


def _divide(number: int, divisor: int) -> int:
    """Division that rounds away from zero."""
    return -(-number // divisor) if number >= 0 else number // divisor
