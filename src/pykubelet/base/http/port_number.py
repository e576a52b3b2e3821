"""Port numbers in the text of requests and specs."""

from typing import Final

_MOST_DIGITS: Final = 5
_HIGHEST: Final = 65535


def parse_port(text: str) -> int | None:
    """Return the port that ``text`` gives as decimal digits, from 1 to 65535; None for any other text.

    Zeros may lead, as in Go. Only short text is converted: Python refuses numbers of more than 4300 digits.
    """
    digits = text.lstrip("0")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _MOST_DIGITS:
        return None
    number = int(digits)
    return number if number <= _HIGHEST else None
