"""Parses files of environment variables (`fileKeyRef`, KEP-3721): a strict subset of shell syntax.

``NAME='value'`` with single quotes only; the value is literal and may span lines; ``#`` begins a comment on a
line of its own or after the value.
"""

from collections.abc import Collection, Iterator

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvFileValues

_BLANKS = " \t"


def parse_env_file(text: str, wanted: Collection[str]) -> EnvFileValues:
    """Return the variables with these names, up to the first line that is faulty.

    Its fault has the line number, never content, which may be secret. Lines after the last wanted variable are not
    parsed.
    """
    values: dict[str, str] = {}
    try:
        for name, value in _variables(text):
            if name in wanted:
                values.setdefault(name, value)
                if len(values) == len(wanted):
                    break
    except Invalid as error:
        return EnvFileValues(values, str(error))
    return EnvFileValues(values)


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The names and values in a file. Raises Invalid at a faulty line."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    number = 0
    while number < len(lines):
        line = lines[number].lstrip(_BLANKS)
        number += 1
        if not line or line.startswith("#"):
            continue
        name, rest = _assignment(line, number)
        value = ""
        if not rest.startswith((" ", "\t")):  # for a shell, NAME= 'value' is an empty value and a command
            value, number = _quoted(rest, lines, number)
        yield name, value


def _assignment(line: str, number: int) -> tuple[str, str]:
    name, equals, rest = line.partition("=")
    if not equals:
        raise _fault(number, "missing '='")
    if not name.strip(_BLANKS):
        raise _fault(number, "empty variable name")
    if name != name.rstrip(_BLANKS):
        raise _fault(number, "whitespace before '=' is not allowed")
    return name, rest


def _quoted(rest: str, lines: list[str], number: int) -> tuple[str, int]:
    """The value that begins in `rest`, and the number of the line where it ends."""
    if not rest.startswith("'"):
        raise _fault(number, "value must be enclosed in single quotes")
    start, rest, parts = number, rest[1:], []
    while "'" not in rest:
        if number == len(lines):
            raise _fault(start, "unclosed single quote")
        parts.append(rest)
        rest = lines[number]
        number += 1
    last, _, after = rest.partition("'")
    after = after.lstrip(_BLANKS)
    if after and not after.startswith("#"):
        raise _fault(number, "unexpected content after closing quote")
    return "\n".join((*parts, last)), number


def _fault(number: int, what: str) -> Invalid:
    return Invalid(f"line {number}: {what}")
