"""The known name that a misspelt one probably means. Pure."""

from collections.abc import Iterable

_MAX_CHARS = 64


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name that differs in case only, else the most similar one; empty if none is similar."""
    names = list(known)
    found = next((each for each in names if each.lower() == name.lower()), None)
    if found is not None:
        return found
    import difflib  # large, and only needed for errors

    return next(iter(difflib.get_close_matches(name[:_MAX_CHARS], names, n=1, cutoff=0.6)), "")
