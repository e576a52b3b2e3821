"""Writer for Prometheus' text format; direct, since a scrape of many containers has ten thousand lines. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the text format."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Exposition:
    """Collects series by family; families are rendered in the order of their first description."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def family(self, name: str, kind: str, text: str) -> None:
        """Describe a family; ``kind`` is ``counter`` or ``gauge``. A family without series is not rendered."""
        if name not in self._families:
            self._families[name] = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def add(self, name: str, labels: str, value: float | None, millis: int | None = None) -> None:
        """Add a series of a described family; None adds nothing. ``labels`` as of :func:`label_text`."""
        if value is None:
            return
        shown = repr(value)
        stamp = "" if millis is None else f" {millis}"
        self._families[name].append(f"{name}{{{labels}}} {shown}{stamp}" if labels else f"{name} {shown}{stamp}")

    def render(self) -> bytes:
        """Return the text."""
        lines = [line for family in self._families.values() if len(family) > 2 for line in family]
        return ("\n".join(lines) + "\n").encode() if lines else b""


def label_text(labels: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """Return ``name="value",…`` with values escaped."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
