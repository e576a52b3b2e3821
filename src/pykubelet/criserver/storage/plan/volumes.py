"""Decides which volumes of an image are made for a container. Pure."""

from collections.abc import Collection, Iterable
from posixpath import normpath


def volumes_to_make(declared: Iterable[str], covered: Collection[str]) -> tuple[str, ...]:
    """The absolute paths of the image's volumes, each once, but for ``/`` and those at or below a covered path."""
    paths = dict.fromkeys("/" + normpath("/" + path).strip("/") for path in declared)
    return tuple(path for path in paths if path != "/" and not is_covered(path, covered))


def is_covered(path: str, covered: Iterable[str]) -> bool:
    """Whether an absolute path is one of these or below one: a volume there would be hidden, or change a mount."""
    return any(path == above or path.startswith(f"{above}/") for above in (each.rstrip("/") for each in covered))
