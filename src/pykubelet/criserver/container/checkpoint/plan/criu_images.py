"""Reads from CRIU's images the state of the processes in a checkpoint: credentials, namespaces and mounts. Pure.

The description beside the images can say anything; CRIU restores what is in these. The format is that of CRIU: two
magic numbers, then messages of protocol buffers with their lengths (images/*.proto). A message that two readers could
understand differently, since a part of it occurs twice, is refused. A byte of an image can be a value that takes fifty
times its space when decoded, so the values of all images of a checkpoint are counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid

_COMMON: Final = 0x54564319
_MAGIC: Final = {"inventory": 0x58313116, "core": 0x55053847, "ids": 0x54432030, "mountpoints": 0x55563928}
_FIXED64: Final = 1
_DEAD: Final = 2
"""The state of a zombie, which has no credentials."""
_NAMESPACES: Final = {"pid": 5, "network": 6, "ipc": 7, "uts": 8, "mount": 9, "user": 10}
"""Field numbers of a task's identifiers, by the OCI name."""
_CAPABILITIES: Final = {"inheritable": 9, "permitted": 10, "effective": 11, "bounding": 12, "ambient": 19}
_UIDS: Final = (1, 3, 5, 7)
_READ_ONLY: Final = 1
_MASK_WORDS: Final = 2
"""Linux has 64 bits of capabilities."""
MAX_MOUNTS: Final = 100_000
"""Mounts of a mount namespace, as the default of Linux (fs.mount-max)."""
MAX_VALUES: Final = 1_000_000
"""Values and messages that are decoded of one checkpoint; a thread has about a hundred, a mount about fifteen."""

Fields = Mapping[int, Sequence[int | bytes]]


class Budget(Struct):
    """Number of values of a checkpoint that may still be decoded."""

    left: int = MAX_VALUES

    def spend(self, count: int, what: str) -> None:
        """Subtract values that were decoded. Invalid: they were more than were left."""
        self.left -= count
        if self.left < 0:
            raise Invalid(f"{what}: the images of the checkpoint have more than {MAX_VALUES} values")


class ThreadCredentials(Struct, frozen=True):
    """The credentials of one thread."""

    capabilities: Mapping[str, int]
    """Bit masks by the OCI name."""
    uids: frozenset[int]
    no_new_privileges: bool
    seccomp: int
    """0: none, 2: filters."""


class MountEntry(Struct, frozen=True):
    """A mount of a process in the checkpoint."""

    type: int
    """CRIU's number."""
    type_name: str
    mountpoint: str
    key: str
    """Of an external one: its name among the mounts of the specification."""
    external: bool
    readonly: bool


def kind_of(name: str) -> str:
    """The kind of an image by its file's name; empty: one that is not read."""
    stem, _, extension = name.rpartition(".")
    kind = stem.partition("-")[0]
    return kind if extension == "img" and kind in _MAGIC else ""


def inherited(inventory: bytes, what: str, budget: Budget) -> Mapping[str, int]:
    """The identifiers of the namespaces of the node on which it was dumped."""
    (entry,) = _messages(inventory, "inventory", what, limit=1)
    return _namespaces(_message(entry, 3, what, budget), what)


def joined(ids: bytes, what: str, budget: Budget) -> Mapping[str, int]:
    """The identifiers of the namespaces of a process."""
    (entry,) = _messages(ids, "ids", what, limit=1)
    return _namespaces(fields(entry, what, budget), what)


def credentials(core: bytes, what: str, budget: Budget) -> ThreadCredentials | None:
    """The credentials of a thread; None: it is a zombie."""
    (entry,) = _messages(core, "core", what, limit=1)
    parts = fields(entry, what, budget)
    if 5 not in parts:
        if _number(_part(parts, 3, what, budget), 1, what) == _DEAD:
            return None
        raise Invalid(f"{what}: it has no credentials")
    thread = _part(parts, 5, what, budget)
    found = _part(thread, 10, what, budget)
    capabilities = {name: _mask(found.get(number, ()), what) for name, number in _CAPABILITIES.items()}
    return ThreadCredentials(
        capabilities,
        frozenset(_number(found, number, what) for number in _UIDS),
        _number(found, 18, what) == 1,
        _number(thread, 11, what),
    )


def mounts(image: bytes, what: str, budget: Budget) -> list[MountEntry]:
    """The mounts of a mount namespace."""
    found = []
    for entry in _messages(image, "mountpoints", what, limit=MAX_MOUNTS):
        parts = fields(entry, what, budget)
        external = _number(parts, 13, what) == 1 or 18 in parts
        made = MountEntry(
            _number(parts, 1, what),
            _text(parts, 14, what),
            _text(parts, 7, what),
            _text(parts, 18, what),
            external,
            bool(_number(parts, 5, what) & _READ_ONLY),
        )
        found.append(made)
    return found


def fields(message: bytes, what: str, budget: Budget) -> Fields:
    """Decode one message: values by field number, in their order. Invalid: it is no message, or has too many."""
    found: dict[int, list[int | bytes]] = {}
    position = 0
    budget.spend(1, what)
    while position < len(message):
        budget.spend(1, what)
        key, position = _varint(message, position, what)
        value: int | bytes
        match key & 7:
            case 0:
                value, position = _varint(message, position, what)
            case 2:
                length, position = _varint(message, position, what)
                value, position = message[position : position + length], position + length
            case 1 | 5 as kind:
                size = 8 if kind == _FIXED64 else 4
                value, position = message[position : position + size], position + size
            case _:
                raise Invalid(f"{what}: a message is invalid")
        if position > len(message):
            raise Invalid(f"{what}: a message ends too early")
        found.setdefault(key >> 3, []).append(value)
    return found


def _messages(image: bytes, kind: str, what: str, *, limit: int) -> Iterator[bytes]:
    # The inventory, which is read first, has no common number.
    numbers = [_MAGIC[kind]] if kind == "inventory" else [_COMMON, _MAGIC[kind]]
    magic = b"".join(number.to_bytes(4, "little") for number in numbers)
    if not image.startswith(magic):
        raise Invalid(f"{what}: it is not an image of CRIU of the kind {kind!r}")
    position, count = len(magic), 0
    while position < len(image):
        size = int.from_bytes(image[position : position + 4], "little")
        position += 4
        if position + size > len(image):
            raise Invalid(f"{what}: the image ends too early")
        count += 1
        if count > limit:
            raise Invalid(f"{what}: the image has more than {limit} entries")
        yield image[position : position + size]
        position += size
    if not count:
        raise Invalid(f"{what}: the image is empty")


def _namespaces(found: Fields, what: str) -> Mapping[str, int]:
    return {name: _number(found, number, what) for name, number in _NAMESPACES.items()}


def _message(entry: bytes, number: int, what: str, budget: Budget) -> Fields:
    return _part(fields(entry, what, budget), number, what, budget)


def _part(parts: Fields, number: int, what: str, budget: Budget) -> Fields:
    """A message inside another; none or two of them are refused."""
    match list(parts.get(number, ())):
        case [bytes(data)]:
            return fields(data, what, budget)
        case _:
            raise Invalid(f"{what}: a part of the image is missing or ambiguous")


def _number(parts: Fields, number: int, what: str) -> int:
    match list(parts.get(number, ())):
        case []:
            return 0
        case [int(value)]:
            return value
        case _:
            raise Invalid(f"{what}: a number in the image is ambiguous")


def _text(parts: Fields, number: int, what: str) -> str:
    match list(parts.get(number, ())):
        case []:
            return ""
        case [bytes(value)]:
            return value.decode(errors="replace")
        case _:
            raise Invalid(f"{what}: a text in the image is ambiguous")


def _mask(values: Sequence[int | bytes], what: str) -> int:
    """The bits of words of 32, which are separate values or packed into one."""
    words: list[int] = []
    for value in values:
        if isinstance(value, int):
            words.append(value)
            continue
        position = 0
        while position < len(value) and len(words) <= _MASK_WORDS:
            word, position = _varint(value, position, what)
            words.append(word)
    if len(words) > _MASK_WORDS or any(word >> 32 for word in words):
        raise Invalid(f"{what}: capabilities have more than {_MASK_WORDS} words of 32 bits")
    return sum(word << 32 * index for index, word in enumerate(words))


def _varint(data: bytes, position: int, what: str) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Invalid(f"{what}: a number in the image is invalid")
