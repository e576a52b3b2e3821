"""The file of the image policy: which images may be used, and whose signatures they need. It is read after a change."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import KIB
from pykubelet.criserver.config.field_errors import field_error
from pykubelet.criserver.config.load import read_document

_SCOPE: Final = re.compile(
    r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:)|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
"""A registry's host, with a dot, a port or ``localhost`` as in references, and components of repositories."""
_Mark: TypeAlias = tuple[int, int, int]
"""Properties of a file that differ after a change: time, size, inode."""
_MAX_KEYS: Final = 16
_MAX_KEY: Final = 64 * KIB


class ImageAction(StrEnum):
    """The decision on the images of a scope."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE = "require"
    """They need a valid signature by one of the keys."""


class ImageRule(Struct, frozen=True, forbid_unknown_fields=True):
    """The rule for the images of one registry or prefix of repositories."""

    policy: ImageAction
    keys: tuple[str, ...] = ()
    """Files of public keys in PEM; relative paths begin at the directory of the policy file."""
    signed_as: str = ""
    """The prefix that stands in the signatures instead of this one, for copies of images of another registry."""


class ImageRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    default: ImageRule = ImageRule(ImageAction.ALLOW)
    """For all images for which there is no entry."""
    images: dict[str, ImageRule] = field(default_factory=dict)
    """By registry (``registry.example:5000``) or prefix of repositories (``registry.example/team``); the longest one
    counts."""


class ImagePolicyFile:
    """The rules of the policy file; without a file every image is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[_Mark, ImageRules] | None = None
        """One attribute: with two, a thread that has read the former file could leave its rules with the new mark."""

    def rules(self) -> ImageRules:
        """The present rules; for several threads. Blocks briefly. Raises Invalid, which names the file and the field.

        A link whose target is missing is an error: it is a policy that cannot be read, not the lack of one.
        """
        mark, known = _mark(self.path), self._known
        if mark is None:
            return ImageRules()
        if known is not None and known[0] == mark:
            return known[1]
        try:
            rules = convert(read_document(self.path), ImageRules)
        except msgspec.ValidationError as error:
            raise field_error(error, ImageRules, self.path) from error
        for scope, rule in (("", rules.default), *rules.images.items()):
            self._check(scope, rule)
        self._known = (mark, rules)
        return rules

    def key(self, scope: str, path: str) -> bytes:
        """Read the file of a key. Blocks briefly. Raises Invalid, which names policy file, entry and key."""
        file = self.path.parent / path
        try:
            return read_regular(file, _MAX_KEY)
        except OSError as error:
            raise Invalid(f"{self.place(scope)}.keys: {file} cannot be read: {error.strerror}") from error

    def place(self, scope: str) -> str:
        """The file and the entry of a scope, for messages; the empty scope is the default."""
        return f'{self.path}: images."{scope}"' if scope else f"{self.path}: default"

    def _check(self, scope: str, rule: ImageRule) -> None:
        place = self.place(scope)
        if scope and not _SCOPE.fullmatch(scope):
            raise Invalid(
                f"{place}: not a registry or a prefix of repositories: give the host (docker.io, registry.example:5000)"
                " and components of the path, without a tag"
            )
        if rule.signed_as and (not scope or not _SCOPE.fullmatch(rule.signed_as)):
            raise Invalid(f"{place}.signed_as: must be a registry or a prefix of repositories, and not in the default")
        if rule.policy is not ImageAction.REQUIRE and (rule.keys or rule.signed_as):
            raise Invalid(f'{place}: keys and signed_as are for policy = "require" only')
        if rule.policy is ImageAction.REQUIRE and not 1 <= len(rule.keys) <= _MAX_KEYS:
            raise Invalid(f"{place}.keys: between 1 and {_MAX_KEYS} files of keys are needed, not {len(rule.keys)}")


def _mark(path: Path) -> _Mark | None:
    """The mark of a file; None: it does not exist. Raises Invalid if it is a link to nothing or cannot be looked at."""
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.is_symlink():
            raise Invalid(f"{path}: is a link to {path.readlink()}, which does not exist") from error
        return None
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
