"""How much the documents of an image may say. Pure.

Registries bound a manifest by 4 MiB; they bound no field of a configuration, of which the whole is kept in memory,
told in lists and given to each container. The limits here are some ten times what the largest images of good faith
have; every refusal names the field.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.images.types import ImageConfig

MAX_DOCUMENT: Final = 4 * MIB
"""Bytes of a manifest, an index or a configuration; registries accept no larger ones."""
MAX_LAYERS: Final = 500
"""What overlayfs can stack."""
MAX_MANIFESTS: Final = 1000
"""Entries of an index; also images in one archive."""
MAX_NAMES: Final = 64
"""Tags of one image, and as many digests."""
_MAX_PARTS: Final = 200_000
"""Commas of a document: about as many values may become objects before anything else can be checked."""
_PATH: Final = 4096


@dataclass(frozen=True, slots=True)
class _Field:
    """Most values of a field, bytes of one of them, and bytes of all."""

    count: int
    each: int
    all: int = 256 * KIB


_TEXTS: Final = {"User": 256, "WorkingDir": _PATH, "StopSignal": 64}
_LISTS: Final = {
    # One argument of execve has at most 128 KiB.
    "Entrypoint": _Field(4096, 128 * KIB),
    "Cmd": _Field(4096, 128 * KIB),
    "Env": _Field(4096, 128 * KIB),
    "Volumes": _Field(256, _PATH),
    # Ranges are written out: whole halves of all ports are used for calls.
    "ExposedPorts": _Field(32_768, 64, 512 * KIB),
    # Builders keep bills of materials in them.
    "Labels": _Field(1024, 256 * KIB, 512 * KIB),
}


def check_parts(data: bytes, what: str) -> None:
    """Refuse a document of too many values before it is decoded. Invalid names ``what``."""
    if data.count(b",") > _MAX_PARTS:
        raise Invalid(f"{what} has more than {_MAX_PARTS} values, which no image needs")


def check_config(config: ImageConfig, what: str) -> None:
    """Refuse a configuration with a field that is too large, or that no process can be given. Invalid names both."""
    for name, value in (("User", config.user), ("WorkingDir", config.working_dir), ("StopSignal", config.stop_signal)):
        _check_text(value, name, _TEXTS[name], what)
    lists: dict[str, Sequence[str]] = {
        "Entrypoint": config.entrypoint,
        "Cmd": config.cmd,
        "Env": config.env,
        "Volumes": config.volumes,
        "ExposedPorts": config.exposed_ports,
        "Labels": [f"{key}={value}" for key, value in config.labels.items()],
    }
    for name, values in lists.items():
        _check_list(values, name, _LISTS[name], what)


def check_names(names: Collection[str], what: str) -> None:
    """Refuse more names than an image may have. Invalid names ``what``."""
    if len(names) > MAX_NAMES:
        raise Invalid(f"{what} would have more than {MAX_NAMES} names; remove the image first to give it others")


def _check_list(values: Sequence[str], name: str, limit: _Field, what: str) -> None:
    if len(values) > limit.count:
        raise Invalid(f"{what}: {name} of its configuration has {len(values)} values; at most {limit.count} are taken")
    total = sum(_check_text(value, name, limit.each, what) for value in values)
    if total > limit.all:
        raise Invalid(f"{what}: {name} of its configuration has {total} bytes in all; at most {limit.all} are taken")


def _check_text(value: str, name: str, limit: int, what: str) -> int:
    size = len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    if size > limit:
        raise Invalid(f"{what}: {name} of its configuration has a value of {size} bytes; at most {limit} are taken")
    if "\0" in value:
        raise Invalid(f"{what}: {name} of its configuration has a NUL in {printable(value[:80])!r}")
    return size
