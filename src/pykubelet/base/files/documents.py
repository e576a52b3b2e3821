"""Safe decoding of untrusted YAML, JSON and TOML: configurations, registry credentials, output of plugins.

libyaml's composer and Python's JSON reader trust their input: a deeply nested document overflows the stack and ends
the process, one with aliases of aliases takes all memory, and half a surrogate pair becomes text that cannot be
encoded. Python's TOML reader takes hours for a key of many parts. The functions here reject all of these with Invalid.
"""

import sys
import tomllib
from contextlib import suppress
from typing import Any, Final

import msgspec

from pykubelet.base.errors import Invalid, Transient

_MOST_DOTS: Final = 256
"""Limit of dots in one line of TOML: the reader's time grows with the square of the parts of a key."""
_JSON_LEVELS: Final = 64
"""Depth of a JSON text that is read without YAML's reader, which has the same limit and explains it."""


def read_json(data: bytes | str) -> object:
    """The values of a JSON text. Raises Invalid for other text, half a surrogate pair, and values nested too deeply."""
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise Invalid("not JSON that can be read: nested too deeply") from error
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from error


def read_yaml(data: bytes) -> object:
    """The values of the first document of a YAML or JSON text; None for an empty one.

    JSON has the rules of JSON, as in Kubernetes: ``1e3`` is a number, though YAML 1.1 takes it for a text. Raises
    Invalid; Transient: the reader cannot be loaded, such as for want of a file descriptor.
    """
    if data.lstrip()[:1] == b"{":
        with suppress(Invalid):
            value = read_json(data)
            if not _deeper(value, _JSON_LEVELS):
                return value
    # Imported here: PyYAML takes 0.4 MiB, and most daemons of this machine are configured without YAML.
    try:
        from pykubelet.base.files.yaml_reader import load
    except (ImportError, OSError) as error:
        _forget_half_of_yaml()
        raise Transient(f"the reader of YAML cannot be loaded: {error}") from error
    return load(data)


def _forget_half_of_yaml() -> None:
    """Let the next import start over: PyYAML cannot be loaded beside parts of it, and goes on without libyaml."""
    if not getattr(sys.modules.get("yaml"), "__with_libyaml__", False):
        for name in [each for each in sys.modules if each.partition(".")[0] == "yaml"]:
            del sys.modules[name]


def _deeper(value: object, levels: int) -> bool:
    match value:
        case dict():
            return levels == 0 or any(_deeper(each, levels - 1) for each in value.values())
        case list():
            return levels == 0 or any(_deeper(each, levels - 1) for each in value)
    return False


def read_toml(data: bytes) -> dict[str, Any]:
    """The table of a TOML text. Raises Invalid."""
    try:
        text = data.decode()
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > _MOST_DOTS:
                raise Invalid(f"not TOML that can be read: line {number} has more than {_MOST_DOTS} dots")
        return tomllib.loads(text)
    except RecursionError as error:
        raise Invalid("not TOML that can be read: nested too deeply") from error
    except ValueError as error:  # also numbers that are too long
        raise Invalid(f"not TOML: {' '.join(str(error).split())}") from error


def has_nul(value: object) -> bool:
    """Whether a text among decoded values, or a key, contains NUL, which no path, program or file can have."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(has_nul(key) or has_nul(each) for key, each in value.items())
        case list():
            return any(map(has_nul, value))
    return False


def field_places(data: bytes) -> dict[str, tuple[int, int]]:
    """Line and column, from 1, of each field by its path (``a.b[0].c``), of a text that `read_yaml` has read."""
    from pykubelet.base.files.yaml_reader import places

    return places(data)
