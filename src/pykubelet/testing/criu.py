"""A stand-in for CRIU where it is not installed: a runc whose ``restore`` starts the program again.

Everything around the processes is real: conmon, the runtime's state, the cgroup, the mounts and the files. The images
say of a process that it has no capabilities.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

_RUNC = """#!/bin/sh
# {runc}, except for "checkpoint" and "restore".
for command; do case $command in -*) ;; *) break ;; esac; done
case $command in
checkpoint)
    for word; do
        [ "$last" = --image-path ] && cp -r {images} "$word"
        last=$word
    done
    exit ;;
restore)
    count=$#
    while [ "$count" -gt 0 ]; do
        word=$1
        shift
        count=$((count - 1))
        case $word in
        restore) set -- "$@" run ;;
        --file-locks) ;;
        --work-path) shift; count=$((count - 1)) ;;
        --image-path)
            [ -s "$1/pstree.img" ] || {{ echo "no processes" >&2; exit 1; }}
            shift
            count=$((count - 1)) ;;
        *) set -- "$@" "$word" ;;
        esac
    done ;;
esac
exec {runc} "$@"
"""
_COMMON = 0x54564319
_MAGIC = {"inventory": 0x58313116, "core": 0x55053847, "ids": 0x54432030, "mountpoints": 0x55563928}
Field = tuple[int, int | bytes]
NODE_IDS = {5: 1, 6: 2, 7: 3, 8: 4, 9: 6, 10: 7}
"""Identifiers of namespaces by their field numbers, in the inventory; those of a process in namespaces of its own."""
POD_IDS = {5: 9, 6: 10, 7: 11, 8: 12, 9: 13, 10: 7}


def stand_in(directory: Path) -> Path:
    """Write the programs ``runc`` and ``criu`` into a directory; returns runc. Both are found if it is on PATH."""
    real = next(
        found for entry in os.environ["PATH"].split(":") if entry != str(directory) and (found := _runc_in(entry))
    )
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, data in images_of().items():
        (images / name).write_bytes(data)
    for name, text in (("runc", _RUNC.format(runc=real, images=images)), ("criu", "#!/bin/sh\nexit 1\n")):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory / "runc"


def message(*fields: Field) -> bytes:
    """Encode a message of protocol buffers."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += _varint(number << 3) + _varint(value)
        else:
            encoded += _varint(number << 3 | 2) + _varint(len(value)) + value
    return encoded


def image(kind: str, *messages: bytes) -> bytes:
    """Encode an image of CRIU."""
    numbers = [_MAGIC[kind]] if kind == "inventory" else [_COMMON, _MAGIC[kind]]
    head = b"".join(number.to_bytes(4, "little") for number in numbers)
    return head + b"".join(len(each).to_bytes(4, "little") + each for each in messages)


def core(*, creds: Sequence[Field] = (), seccomp: int = 2, uid: int = 0, no_new_privs: int = 1) -> bytes:
    """The image of a thread; ``creds``: further fields of its credentials."""
    ids = [(number, uid) for number in range(1, 9)]
    made = message(*ids, *creds, (13, 0), (18, no_new_privs))
    return image("core", message((1, 1), (3, message((1, 1))), (5, message((1, 0), (10, made), (11, seccomp)))))


def mount(path: str, *, kind: int = 17, flags: int = 1, key: str = "") -> bytes:
    """An entry of a mount; ``key``: that of an external one."""
    external: list[Field] = [(13, 1), (18, key.encode())] if key else []
    return message((1, kind), (2, 1), (5, flags), (6, b"/"), (7, path.encode()), (8, b"none"), (9, b""), *external)


def images_of(**changed: bytes) -> dict[str, bytes]:
    """The images of one process in a pod; ``changed``: others, by their kinds."""
    made = {
        "inventory": image("inventory", message((1, 2), (3, message(*NODE_IDS.items())))),
        "core": core(),
        "ids": image("ids", message((1, 1), *POD_IDS.items())),
        "mountpoints": image("mountpoints", mount("/")),
        **changed,
    }
    numbers = {"inventory": "", "core": "-1", "ids": "-1", "mountpoints": "-13"}
    return {f"{kind}{numbers[kind]}.img": data for kind, data in made.items()} | {"pstree.img": b"processes"}


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def _runc_in(directory: str) -> str | None:
    return shutil.which("runc", path=directory)
