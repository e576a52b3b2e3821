"""Text in the cells of a terminal: escaped, measured by its display width, cut, padded and wrapped. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from rich.cells import cell_len

from pykubelet.base.text import printable

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f]")
"""They combine characters, by rules that terminals do not agree about; without them each character has its width."""
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"})
"""Categories of characters that move or hide others (directions of writing, separators), or have no known width."""


class Style(Enum):
    """The meaning of a piece of text; the terminal has a colour for it."""

    PLAIN = auto()
    STRONG = auto()
    FAINT = auto()
    GOOD = auto()
    WARNING = auto()
    BAD = auto()
    GRAPH = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a screen; ``bar``: it is shown inverted, over the whole width."""

    spans: tuple[Span, ...] = ()
    bar: bool = False

    @property
    def text(self) -> str:
        """The line without its styles."""
        return "".join(span.text for span in self.spans)


def visible(text: str) -> str:
    """Return the text as one line without control characters, and without characters that reorder or hide others."""
    plain = printable(_JOINERS.sub("", text))
    if plain.isascii():
        return plain
    return "".join(_escaped(char) if unicodedata.category(char) in _ESCAPED else char for char in plain)


def log_text(data: bytes) -> str:
    """Return a line of a log as it is shown: without colours, with tabs expanded, everything else escaped."""
    text = data.decode(errors="replace").rstrip("\r\n")
    return visible(_COLOURS.sub("", text).expandtabs(8))


def cut(text: str, width: int) -> str:
    """Return the text in at most ``width`` cells; what does not fit is replaced by an ellipsis."""
    if cell_len(text) <= width:
        return text
    return _head(text, width - 1)[0] + "…" if width > 0 else ""


def cut_middle(text: str, width: int, tail: int) -> str:
    """Return the text in at most ``width`` cells, with its last ``tail`` characters: generated names differ there."""
    end = text[-tail:]
    if cell_len(text) <= width or cell_len(end) + 4 > width:
        return cut(text, width)
    return cut(text[:-tail], width - cell_len(end)) + end


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly ``width`` cells, cut or padded; ``right``: aligned there."""
    shown = cut(text, width)
    padding = " " * (width - cell_len(shown))
    return padding + shown if right else shown + padding


def wrapped(text: str, width: int) -> list[str]:
    """Return the text in lines of at most ``width`` cells; an empty text is one line."""
    lines = []
    while cell_len(text) > width:
        head, text = _head(text, width)
        if not head:  # a wide character on a screen of one column
            break
        lines.append(head)
    return [*lines, cut(text, width)]


def clipped(line: Line, width: int) -> Line:
    """Return the line in at most ``width`` cells."""
    spans = []
    for span in line.spans:
        shown = cut(span.text, width)
        width -= cell_len(shown)
        spans.append(Span(shown, span.style))
        if shown != span.text:
            break
    return Line(tuple(spans), line.bar)


def width_of(texts: Sequence[str]) -> int:
    """Return the width of the widest text, in cells; 0 without texts."""
    return max(map(cell_len, texts), default=0)


def _head(text: str, width: int) -> tuple[str, str]:
    """Return as many characters as fit into ``width`` cells, and the rest."""
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index], text[index:]
    return text, ""


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()
