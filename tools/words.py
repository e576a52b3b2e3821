"""``make lint``: reject words that the project's texts and names do not use, and name the replacement.

It reads every text file of the project, names of files included; ``tools/words_allowed.txt`` lists the places where
such a word is right (a foreign name, a format that stays), each with a reason.

Exit status: 0 clean; 1 words were found, one line each; 2 the list of exceptions is wrong.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT = Path(__file__).parents[1]
_ALLOWED = _ROOT / "tools" / "words_allowed.txt"
_TEXT = re.compile(r"\.(py|md|toml|sh|txt|yaml|yml|service)$|(^|/)(Makefile|\.importlinter|run)$")
_IS_MADE = re.compile(r"\.|__pycache__$|build$|dist$|node_modules$|.*\.egg-info$")
_NOT_OURS = re.compile(
    r"^(src/pykubelet/(pb/|models/\w+_v\d\w*\.py)|requirements\.lock|LICENSE|tools/words(_allowed)?\.(py|txt)"
    r"|tests/unit/tools/test_words)"
)

WORDS: Final[Mapping[str, str]] = {
    r"folders?": "directory",
    r"nobody": "no one, or a sentence with a subject",
    r"somebody|whoever": "the caller, the client, the owner",
    r"anew|once more": "again, re-created, retried",
    r"everybody": "every user, all clients",
    r"allot(s|ted|ment|ments|ting)?": "allocate, allocation",
    r"wish(es|ed)?": "request, requested size",
    r"mend(s|ed|ing)?": "repair, restart, reconcile",
    r"(come|comes|came|coming) back": "restart, run again, reconcile",
    r"strangers?": "orphan, leftover, stale",
    r"want of memory": "out of memory, OOM-killed",
    r"holdings?": "pod resources",
    r"ledgers?": "allocation store",
    r"keepers?": "runtime supervisor",
    r"image rooms?": "image store wiring",
    r"lets? go of|let go": "release, time out, not responding",
    r"(do|does|did) not answer": "is not responding, has timed out",
    r"node ?server": "API server of the kubelet",
    r"ground": "foundation",
    r"(?<!there )is nothing": "is invalid, does not exist",
    r"(?-i:is none)(?=[.,:;\"'\])}]|$)": "is invalid, does not exist",
    r"(as|in|of|by|with|from|than|unlike|like) the reference": "upstream, the Go kubelet",
    r"the reference('s| (does|has|kubelet|agent))": "upstream, the Go kubelet",
    r"what (is|was|were|has been) left": "leftover, rest, remaining",
    r"not taken(?! (as|for))": "rejected, refused",
    r"(run|runs|launched|made) ahead": "pre-create, before",
    r"(?<=[:;] )who|(?-i:Who)": "the caller, the client, the owner",
    r"(?<=/)ports\.py": "interfaces",
}
"""Replacements by regular expression over words. Names are split into words first: ``image_rooms``, ``ImageRooms``."""

NAMES: Final[Mapping[str, str]] = {
    "turns": "slots, steps, order",
    "together": "total, concurrent",
    "ahead": "early, precreated, prefetched",
    "moves": "steps, migrations",
    "beside": "siblings, others, background",
    "rooms": "stores",
    "who": "user, subject, caller",
    "told": "what it holds: message, reported, extra",
}
"""Ordinary words that texts may use, but that say too little in the name of a variable, function or class."""

_PATTERN = re.compile(
    "|".join(rf"(?P<w{number}>\b(?:{word})(?!\w))" for number, word in enumerate(WORDS)), re.IGNORECASE
)
_JOINTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_NAMES = re.compile(rf"(?<![a-z])(?:{'|'.join(NAMES)})(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RejectedWord:
    """A rejected word in a file."""

    path: str
    line: int
    """Line number from 1; 0: the name of the file."""
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: write {self.instead!r}, not {self.word!r}"


def look(path: str, text: str) -> Iterator[RejectedWord]:
    """The rejected words of a file, in its name and in its text."""
    for number, line in enumerate((path, *text.splitlines())):
        for match in _PATTERN.finditer(_JOINTS.sub(" ", line)):
            instead = list(WORDS.values())[int(str(match.lastgroup)[1:])]
            yield RejectedWord(path, number, match[0].lower(), instead)
    if path.endswith(".py") and _NAMES.search(text):
        yield from _poor_names(path, text)


def _poor_names(path: str, text: str) -> Iterator[RejectedWord]:
    """The names that a Python file defines with words of ``NAMES``; the names of tests are sentences."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case _:
                continue
        if not name.startswith("test_"):
            for word in sorted(NAMES.keys() & _JOINTS.sub(" ", name).lower().split()):
                yield RejectedWord(path, node.lineno, word, NAMES[word])


def allowed(text: str) -> set[tuple[str, str]]:
    """Parse the exceptions: ``path: word  # reason`` in each line. ValueError: a line is not of this form."""
    found = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"(\S+): ([^#]+?) +# \S.*", line)
            if match is None:
                raise ValueError(f"{_ALLOWED.name}: {line!r} is not of the form 'path: word  # reason'")
            found.add((match[1], match[2]))
    return found


def texts(root: Path) -> Iterator[str]:
    """The project's text files, relative to its root; nothing of hidden directories, but for ``.ci``, or of builds."""
    for top, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name == ".ci" or not _IS_MADE.match(name))
        for name in sorted(names):
            path = str(Path(top, name).relative_to(root))
            if _TEXT.search(path) and not _NOT_OURS.match(path):
                yield path


def main() -> int:
    """Check the project, or only the files and directories of the arguments; returns the exit status."""
    try:
        exceptions = allowed(_ALLOWED.read_text())
    except ValueError as error:
        print(error)
        return 2
    used, bad = set(), 0
    chosen = tuple(sys.argv[1:])
    for path in texts(_ROOT):
        if chosen and not path.startswith(chosen):
            continue
        for found in look(path, (_ROOT / path).read_text()):
            if (path, found.word) in exceptions:
                used.add((path, found.word))
            else:
                bad += 1
                print(found)
    if not chosen:
        for path, word in sorted(exceptions - used):
            bad += 1
            print(f"{_ALLOWED.name}: {word!r} does not occur in {path} any more")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
