"""Resolves the user of a container from the request, the image's USER, and the image's passwd and group. Pure.

A number is always a user id, never the name of a user (CVE-2024-40635). The files come from an image and may have
millions of lines: they are read in blocks, and a regular expression finds the relevant lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_ID = 2**32 - 2
_MAX_DIGITS = 20
_MAX_MEMBERSHIPS = 65536
"""NGROUPS_MAX of the kernel."""
_MAX_BROKEN = 1000
"""Maximum number of lines of the wanted user without a valid id."""

Blocks: TypeAlias = Callable[[], Iterable[bytes]]
"""Reads a file of the image from its beginning, in blocks of complete lines; no block if the file does not exist."""


class _Account(Struct, frozen=True):
    name: str
    uid: int
    gid: int
    home: str
    raw: bytes = b""
    """The name as bytes, as in the image's files."""


def resolve_user(
    context: pb.LinuxContainerSecurityContext, image_user: str, passwd: Blocks, group: Blocks
) -> ContainerUser:
    """Resolve the user of a container. ``passwd`` and ``group``: the image's files.

    Invalid: a name is not in the files, an id is out of range, or a group is given without a user.
    """
    user, _, of_group = _asked(context, image_user).partition(":")
    uid = _number(user) if user else 0
    match = _account(passwd, user if uid is None else uid)
    if uid is None and match is None:
        raise Invalid(f"user {user!r} is not in the image's /etc/passwd; use a number")
    account = match or _Account("", uid or 0, 0, "/")
    gid = _gid(context, of_group, account.gid, group)
    extra = list(context.supplemental_groups)
    if context.supplemental_groups_policy == pb.Merge and account.name:
        extra += islice(_memberships(group, account.raw), _MAX_MEMBERSHIPS)
    groups = tuple(dict.fromkeys([gid, *(_checked(each, "supplemental group") for each in extra)]))
    return ContainerUser(account.uid, gid, groups[:_MAX_MEMBERSHIPS], account.home or "/", account.name)


def _asked(context: pb.LinuxContainerSecurityContext, image_user: str) -> str:
    if context.HasField("run_as_user"):
        return str(_checked(context.run_as_user.value, "user"))
    if context.run_as_username:
        return context.run_as_username
    if context.HasField("run_as_group") and not image_user:
        raise Invalid("run_as_group needs run_as_user or run_as_username")
    return image_user


def _gid(context: pb.LinuxContainerSecurityContext, asked: str, default: int, group: Blocks) -> int:
    if context.HasField("run_as_group"):
        return _checked(context.run_as_group.value, "group")
    if not asked or context.HasField("run_as_user"):
        return default
    number = _number(asked)
    if number is not None:
        return number
    found = next(_groups(group, _raw(asked), rb"%s:[^:\n]*" % re.escape(_raw(asked))), None)
    if found is not None:
        return found
    raise Invalid(f"group {asked!r} is not in the image's /etc/group; use a number")


def _number(text: str) -> int | None:
    """Parse a user or group given as a number; None: it is a name."""
    if not re.fullmatch("-?[0-9]+", text):
        return None
    return _checked(int(text[:24]), "user or group")


def _checked(number: int, what: str) -> int:
    if not 0 <= number <= _MAX_ID:
        raise Invalid(f"{what} id {number} is out of range (0 to {_MAX_ID})")
    return number


def _account(passwd: Blocks, user: str | int) -> _Account | None:
    """Find the first account with this name or id; lines with invalid ids are ignored."""
    needle = b"%d" % user if isinstance(user, int) else _raw(user)
    front = rb"[^:\n]*:[^:\n]*:0*%s:" % needle if isinstance(user, int) else rb"%s:" % re.escape(needle)
    for tried, line in enumerate(_lines(passwd, needle + b":", rb"%s[^\n]*" % front)):
        fields = line.decode(errors="replace").split(":")
        uid, gid = (_id(field.strip()) for field in fields[2:4]) if len(fields) > 3 else (None, None)
        if uid is not None and gid is not None:
            home = fields[5] if len(fields) > 5 else "/"
            return _Account(fields[0], uid, gid, home.rstrip(), line.partition(b":")[0])
        if tried >= _MAX_BROKEN:
            raise Invalid(f"the image's /etc/passwd has more than {_MAX_BROKEN} broken lines for user {user!r}")
    return None


def _memberships(group: Blocks, name: bytes) -> Iterator[int]:
    member = rb"(?:[^\n:]*,)?%s[ \t\r]*(?:,[^\n]*)?" % re.escape(name)
    return _groups(group, name, rb"[^:\n]*:[^:\n]*", rb":%s" % member)


def _groups(group: Blocks, needle: bytes, front: bytes, rest: bytes = rb"(?::[^\n]*)?[ \t\r]*") -> Iterator[int]:
    """Yield the ids of the lines that match these expressions before and after the id."""
    for line in _lines(group, needle, rb"%s:[0-9]{1,%d}%s" % (front, _MAX_DIGITS, rest)):
        found = _id(line.split(b":", 3)[2].decode().strip())
        if found is not None:
            yield found


def _id(text: str) -> int | None:
    """Parse an id in a file of the image; None: it is invalid or out of range, and its line is ignored."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) > _MAX_ID:
        return None
    return int(text)


def _raw(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _lines(blocks: Blocks, needle: bytes, expression: bytes) -> Iterator[bytes]:
    """Yield the matching lines without leading blanks, except comments; all of them contain the needle."""
    pattern = re.compile(rb"\n[ \t]*+(?!#)(%s)(?=\n)" % expression)
    for block in blocks():
        if needle in block:
            for match in pattern.finditer(b"\n%s\n" % block):
                yield match[1]
