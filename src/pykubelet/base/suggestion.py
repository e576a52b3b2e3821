"""The known name that a misspelt one probably means. Pure."""

from collections.abc import Iterable

_MAX_CHARS = 64


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like the given one, whatever the case of letters; empty if none is like it."""
    names = {each.lower(): each for each in known}
    if (found := names.get(name.lower())) is not None:
        return found
    import difflib  # large, and only needed for errors

    close = difflib.get_close_matches(name[:_MAX_CHARS].lower(), names, n=1, cutoff=0.6)
    return names[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for the end of an error message; empty if no known word is close."""
    found = closest(word, known)
    return f"; did you mean {found}?" if found else ""
