"""What the user may have meant by a wrong word. Pure."""

from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like the given one; None if none is."""
    import difflib  # large, and only needed for errors

    words = list(dict.fromkeys(known))
    lower = {each.lower(): each for each in words}
    if word.lower() in lower:
        return lower[word.lower()]
    close = difflib.get_close_matches(word[:64].lower(), lower, n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for the end of an error message; empty if no known word is close."""
    found = closest(word, known)
    return f"; did you mean {found}?" if found else ""
