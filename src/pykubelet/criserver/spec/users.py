"""As whom a container runs: the request, the image's USER and the image's own passwd and group files. Pure.

A number is always a user id, never the name of a user called so (CVE-2024-40635).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pykubelet.base.errors import Invalid
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_ID = 2**32 - 2
_MAX_DIGITS = 20
_MAX_MEMBERSHIPS = 65536
"""NGROUPS_MAX of the kernel."""


@dataclass(frozen=True, slots=True)
class _Account:
    name: str
    uid: int
    gid: int
    home: str


def resolve_user(context: pb.LinuxContainerSecurityContext, image_user: str, passwd: str, group: str) -> ContainerUser:
    """The user to run as. ``passwd`` and ``group`` are the image's files, empty when it has none.

    Invalid for a name that the image does not know, an id out of range, or a group without a user.
    """
    who, _, of_group = _asked(context, image_user).partition(":")
    accounts = list(_accounts(passwd))
    uid = _number(who)
    if not who:
        uid = 0
    match = next((each for each in accounts if (each.uid == uid if uid is not None else each.name == who)), None)
    if uid is None and match is None:
        raise Invalid(f"user {who!r} is not in the image's /etc/passwd; use a number")
    account = match or _Account("", uid or 0, 0, "/")
    gid = _gid(context, of_group, account.gid, group)
    extra = list(context.supplemental_groups)
    if context.supplemental_groups_policy == pb.Merge and account.name:
        extra += _memberships(group, account.name)
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


def _gid(context: pb.LinuxContainerSecurityContext, asked: str, default: int, group: str) -> int:
    if context.HasField("run_as_group"):
        return _checked(context.run_as_group.value, "group")
    if not asked or context.HasField("run_as_user"):
        return default
    number = _number(asked)
    if number is not None:
        return number
    for name, gid, _ in _groups(group):
        if name == asked:
            return gid
    raise Invalid(f"group {asked!r} is not in the image's /etc/group; use a number")


def _number(text: str) -> int | None:
    if not text.lstrip("-").isdecimal() or not text.isascii():
        return None
    return _checked(int(text[:24]), "user or group")


def _checked(number: int, what: str) -> int:
    if not 0 <= number <= _MAX_ID:
        raise Invalid(f"{what} id {number} is out of range (0 to {_MAX_ID})")
    return number


def _accounts(passwd: str) -> Iterator[_Account]:
    for fields in _lines(passwd, 4):
        uid, gid = _id(fields[2]), _id(fields[3])
        if uid is not None and gid is not None:
            yield _Account(fields[0], uid, gid, fields[5] if len(fields) > 5 else "/")


def _groups(group: str) -> Iterator[tuple[str, int, list[str]]]:
    for fields in _lines(group, 3):
        gid = _id(fields[2])
        if gid is not None:
            yield fields[0], gid, fields[3].split(",") if len(fields) > 3 else []


def _id(text: str) -> int | None:
    """An id in a file of the image; None for what is none, or out of range: such a line counts for nothing."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) > _MAX_ID:
        return None
    return int(text)


def _memberships(group: str, name: str) -> Iterable[int]:
    return [gid for _, gid, members in _groups(group) if name in members]


def _lines(text: str, least: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) >= least and not line.startswith("#"):
            yield fields
