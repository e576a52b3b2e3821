"""``make lint``: report public classes, functions, methods and properties that no code of the product uses.

vulture finds them by their names, so a name that is used anywhere counts as used. Code that only tests use is reported
too: it is either left over, or a rule that nothing applies. ``tools/unused_allowed.txt`` lists the exceptions, each
with a reason.

Exit status: 0 clean; 1 unused names were found, one line each; 2 the list of exceptions is wrong.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vulture import Vulture

_ROOT = Path(__file__).parents[1]
_ALLOWED = _ROOT / "tools" / "unused_allowed.txt"
_PRODUCT = Path("src/pykubelet")
_NOT_OURS: Final = ("*/pb/*", "*/models/*_v1.py", "*/models/generated/*", "*/pykubelet/testing/*")
"""Generated code, and the test kit, which tests use."""
_KINDS: Final = ("class", "function", "method", "property")
"""Variables and attributes are left out: fields of Kubernetes objects and constants of protocols look unused."""
_DECORATORS: Final = ("@*.command", "@*.group")
"""Of click, which calls the decorated functions."""


@dataclass(frozen=True, slots=True)
class Unused:
    """A definition without a use."""

    path: str
    line: int
    kind: str
    name: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: unused {self.kind} {self.name!r}: remove it, or call it where its rule applies"
        )


def look(root: Path, product: Path = _PRODUCT) -> Iterator[Unused]:
    """The unused public definitions below ``root / product``."""
    vulture = Vulture(ignore_decorators=list(_DECORATORS))
    vulture.scavenge([root / product], exclude=list(_NOT_OURS))
    for item in vulture.get_unused_code(min_confidence=60):
        if item.typ in _KINDS and not item.name.startswith("_"):
            path = Path(item.filename).resolve().relative_to(root.resolve())
            yield Unused(str(path), item.first_lineno, item.typ, item.name)


def allowed(text: str) -> set[tuple[str, str]]:
    """Parse the exceptions: ``path: name  # reason`` in each line. ValueError: a line is not of this form."""
    found = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"(\S+): (\w+) +# \S.*", line)
            if match is None:
                raise ValueError(f"{line!r} is not of the form 'path: name  # reason'")
            found.add((match[1], match[2]))
    return found


def check(root: Path, exceptions: str) -> tuple[int, list[str]]:
    """The exit status and the lines to print."""
    try:
        accepted = allowed(exceptions)
    except ValueError as error:
        return 2, [f"{_ALLOWED.name}: {error}"]
    found = {(each.path, each.name): str(each) for each in look(root)}
    needless = sorted(accepted - found.keys())
    if needless:
        return 2, [f"{_ALLOWED.name}: {path}: {name} is used, or gone: remove the line" for path, name in needless]
    lines = [line for key, line in found.items() if key not in accepted]
    return bool(lines), lines


def main() -> int:
    """Check the project; returns the exit status."""
    status, lines = check(_ROOT, _ALLOWED.read_text())
    print("\n".join(lines), end="\n" if lines else "")
    return status


if __name__ == "__main__":
    sys.exit(main())
