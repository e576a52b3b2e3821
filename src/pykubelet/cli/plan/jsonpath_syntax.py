"""Parses kubectl's JSONPath templates into nodes (https://kubernetes.io/docs/reference/kubectl/jsonpath/). Pure.

A template is text with actions in braces: a path ``{.items[*].metadata.name}``, a quoted text ``{"\\n"}``, or a loop
``{range .items[*]}…{end}``. Libraries for JSONPath know paths only, with other rules for filters and quotes.
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from pykubelet.base.errors import Invalid


@dataclass(frozen=True, slots=True)
class Field:
    """A field by name; with ``split`` also the path that the name's dots make, if there is no such field."""

    name: str
    split: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """Items of an array: from ``start`` up to ``stop``. With ``single``, the item at ``start``."""

    start: int | None
    stop: int | None
    step: int = 1
    single: bool = False


@dataclass(frozen=True, slots=True)
class Wildcard:
    """All values of an object or array."""


@dataclass(frozen=True, slots=True)
class RecursiveDescent:
    """The value itself and everything below it."""


@dataclass(frozen=True, slots=True)
class Union:
    """The results of several steps, one after the other."""

    steps: tuple["Step", ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Items of an array for which a comparison holds; without an operator, those that have ``left``."""

    left: "Operand"
    operator: str = ""
    right: "Operand | None" = None


Step: TypeAlias = Field | Slice | Wildcard | RecursiveDescent | Union | Filter


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the current value, or from the whole document (``$``)."""

    steps: tuple[Step, ...]
    from_root: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, number or truth value in a filter."""

    value: str | float | bool


Operand: TypeAlias = Path | Constant


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is printed as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """Nodes that are printed for each result of a path."""

    path: Path
    body: tuple["Node", ...]


Node: TypeAlias = Text | Path | Range

_NAME: Final = re.compile(r"(?:\\.|[^\\.\[\]\s{}()'\"=!<>|&,])+", re.DOTALL)
_SLICE: Final = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+)?)?")
_INDEX: Final = re.compile(r"-?\d+")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|<|>")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?![\w.])")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r"}


def parse_template(text: str) -> tuple[Node, ...]:
    """Parse a template. Invalid names the position of a mistake."""
    return _Parser(text).template()


def parse_expression(text: str) -> Path:
    """Parse one path as ``--sort-by`` and custom columns have them: ``{.a.b}``, ``.a.b`` or ``a.b``. Raises Invalid."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if inner and inner[0] not in ".[$@":
        inner = f".{inner}"
    parser = _Parser(inner)
    path = parser.path()
    if not inner or not parser.at_end():
        parser.fail("not a path such as .metadata.name")
    return path


class _Parser:
    """Reads one template from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def fail(self, message: str) -> NoReturn:
        raise Invalid(f"jsonpath: {message}, at position {self._at + 1} of {self._text!r}")

    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def template(self, *, inside_range: bool = False) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self.at_end():
            brace = self._text.find("{", self._at)
            if brace != self._at:
                end = brace if brace >= 0 else len(self._text)
                nodes.append(Text(self._text[self._at : end]))
                self._at = end
                continue
            self._at += 1
            self._spaces()
            if self._word("end"):
                if not inside_range:
                    self.fail("{end} without {range}")
                self._close()
                return tuple(nodes)
            nodes.extend(self._action())
        if inside_range:
            self.fail("{range} without {end}")
        return tuple(nodes)

    def _action(self) -> list[Node]:
        """Read an action after its opening brace."""
        if self._word("range"):
            self._spaces()
            path = self.path()
            self._close()
            return [Range(path, self.template(inside_range=True))]
        nodes: list[Node] = []
        while not self._skip("}"):
            if self.at_end():
                self.fail("a closing brace is missing")
            nodes.append(Text(self._quoted()) if self._next() in "'\"" else self.path())
            self._spaces()
        return nodes

    def path(self) -> Path:
        """Read a path up to what cannot belong to it."""
        start = self._at
        from_root = self._skip("$")
        if not from_root:
            self._skip("@")
        steps: list[Step] = []
        while self._next() in ".[*":
            steps += self._steps()
        if self._at == start:
            if _NAME.match(self._text, self._at) is None:
                self.fail("a path is missing")
            steps.append(Field(self._name()))
            rest = self.path() if self._next() in ".[" else Path(())
            steps.extend(rest.steps)
        return Path(tuple(steps), from_root)

    def _steps(self) -> list[Step]:
        """Read what begins with a dot, a bracket or an asterisk; a dot alone is the value itself."""
        if self._next() == "[":
            return [self._brackets()]
        if self._skip("*"):
            return [Wildcard()]
        if self._skip(".."):
            return [RecursiveDescent(), *([] if self._next() in "[*" else [Field(self._name())])]
        self._skip(".")
        named = self._next() not in "[*" and _NAME.match(self._text, self._at) is not None
        return [Field(self._name())] if named else []

    def _brackets(self) -> Step:
        self._skip("[")
        if self._skip("?("):
            found: Step = self._filter()
        else:
            steps: list[Step] = [self._item()]
            while self._skip(","):
                steps.append(self._item())
            found = steps[0] if len(steps) == 1 else Union(tuple(steps))
        if not self._skip("]"):
            self.fail("a closing bracket is missing")
        return found

    def _item(self) -> Step:
        self._spaces()
        found: Step
        if self._next() in "'\"":
            found = Field(self._quoted(keep_dots=True), split=True)
        elif self._skip("*"):
            found = Wildcard()
        elif match := _SLICE.match(self._text, self._at):
            self._at = match.end()
            start, stop, step = (int(group) if group else None for group in match.groups())
            if step is not None and step <= 0:
                self.fail("the step of a slice has to be positive")
            found = Slice(start, stop, step or 1)
        elif match := _INDEX.match(self._text, self._at):
            self._at = match.end()
            found = Slice(int(match[0]), None, single=True)
        else:
            self.fail("expected an index, a slice, *, a quoted name or ?(…)")
        self._spaces()
        return found

    def _filter(self) -> Filter:
        left = self._operand()
        match = _OPERATOR.match(self._text, self._at)
        found = Filter(left)
        if match:
            self._at = match.end()
            found = Filter(left, match[0], self._operand())
        if not self._skip(")"):
            self.fail("a filter compares two values with ==, !=, <, <=, > or >=; kubectl has no other operators")
        return found

    def _operand(self) -> Operand:
        self._spaces()
        found: Operand
        if self._next() in "'\"":
            found = Constant(self._quoted())
        elif match := _NUMBER.match(self._text, self._at):
            self._at = match.end()
            found = Constant(float(match[0]))
        elif self._word("true"):
            found = Constant(True)
        elif self._word("false"):
            found = Constant(False)
        else:
            found = self.path()
        self._spaces()
        return found

    def _quoted(self, *, keep_dots: bool = False) -> str:
        """Read a quoted text; with ``keep_dots``, an escaped dot keeps its backslash, which means no separator."""
        quote = self._next()
        self._at += 1
        end = self._at
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            self.fail(f"a closing {quote} is missing")
        raw = self._text[self._at : end]
        self._at = end + 1
        return _ESCAPE.sub(lambda m: m[0] if keep_dots and m[1] == "." else _LETTERS.get(m[1], m[1]), raw)

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            self.fail("the name of a field is missing")
        self._at = match.end()
        return _ESCAPE.sub(r"\1", match[0])

    def _close(self) -> None:
        self._spaces()
        if not self._skip("}"):
            self.fail("a closing brace is missing")

    def _word(self, word: str) -> bool:
        match = re.compile(rf"{word}(?![\w.\[])").match(self._text, self._at)
        if match:
            self._at = match.end()
        return match is not None

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _next(self) -> str:
        """Return the next character; at the end a space, which belongs to nothing."""
        return self._text[self._at] if self._at < len(self._text) else " "

    def _spaces(self) -> None:
        while not self.at_end() and self._text[self._at].isspace():
            self._at += 1
