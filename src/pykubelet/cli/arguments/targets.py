"""Objects that the user names in kubectl's forms: ``pods``, ``pods A B``, ``pod/A cm/B``, ``pods,cm``."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.arguments.kinds import BY_NAME, KINDS, ObjectKind


@dataclass(frozen=True, slots=True)
class Target:
    """Objects of one kind; without names, all of them."""

    kind: ObjectKind
    names: tuple[str, ...] = ()


def parse_targets(words: Sequence[str]) -> list[Target]:
    """Return what the words name. UsageError: an unknown kind, or both forms together."""
    if any("/" in word for word in words[:1]):
        return _slashed(words)
    kinds = [kind_named(word) for word in words[0].split(",") if word]
    names = tuple(words[1:])
    if not kinds:
        raise click.UsageError(f"name what to get: {', '.join(kind.plural for kind in KINDS)}")
    if any("/" in name for name in names if kinds[0].selectable):
        raise click.UsageError(f"write either {kinds[0].plural} NAME… or {kinds[0].singular}/NAME…")
    return [Target(kind, names) for kind in dict.fromkeys(kinds)]


def _slashed(words: Sequence[str]) -> list[Target]:
    found: dict[ObjectKind, list[str]] = {}
    for word in words:
        prefix, _, name = word.partition("/")
        if not name:
            raise click.UsageError(f"{word!r}: with KIND/NAME, every object has to be written like this")
        found.setdefault(kind_named(prefix), []).append(name)
    return [Target(kind, tuple(dict.fromkeys(names))) for kind, names in found.items()]


def kind_named(word: str) -> ObjectKind:
    """Return the kind with this plural, singular or short name. UsageError: the word is unknown."""
    found = BY_NAME.get(word.lower())
    if found is None:
        known = ", ".join("/".join(kind.names) for kind in KINDS)
        raise click.UsageError(f"{word!r} is no kind of object here{did_you_mean(word, BY_NAME)} (known: {known})")
    return found
