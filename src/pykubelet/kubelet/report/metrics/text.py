"""The text format of Prometheus, written directly: a scrape of many containers has ten thousand lines. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Exposition:
    """Collects series by family; families come out in the order in which they were first named."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def family(self, name: str, kind: str, text: str) -> None:
        """Describe a family; ``kind`` is ``counter`` or ``gauge``. One without series does not come out."""
        if name not in self._families:
            self._families[name] = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def add(self, name: str, labels: str, value: float | None, millis: int | None = None) -> None:
        """A series of a described family; nothing for None. ``labels`` as :func:`label_text` writes them."""
        if value is None:
            return
        shown = repr(value)
        stamp = "" if millis is None else f" {millis}"
        self._families[name].append(f"{name}{{{labels}}} {shown}{stamp}" if labels else f"{name} {shown}{stamp}")

    def render(self) -> bytes:
        """The text."""
        lines = [line for family in self._families.values() if len(family) > 2 for line in family]
        return ("\n".join(lines) + "\n").encode() if lines else b""


def label_text(labels: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """``name="value",…`` with what must be escaped escaped."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
