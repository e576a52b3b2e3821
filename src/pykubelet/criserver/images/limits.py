"""Limits of the documents of an image. Pure.

Registries limit a manifest to 4 MiB, but no field of a configuration. A configuration is kept in memory, appears in
lists and is passed to each container. The limits here are well above the values of the largest ordinary images; every
error names the field.
"""

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.images.image_types import ImageConfig

MAX_DOCUMENT: Final = 4 * MIB
"""Bytes of a manifest, an index or a configuration; registries accept no larger ones."""
MAX_LAYERS: Final = 500
"""Layers that overlayfs can stack."""
MAX_MANIFESTS: Final = 1000
"""Entries of an index; also images in one archive."""
MAX_NAMES: Final = 64
"""Tags of one image, and as many digests."""
_MAX_PARTS: Final = 200_000
"""Commas of a document: about as many values are decoded before any other check is possible."""
_PATH: Final = 4096


class _Field(Struct, frozen=True):
    """Limits of a field: number of values, bytes of one value, and bytes of all values."""

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
    # Builders expand ranges, and some images expose all ports of a protocol.
    "ExposedPorts": _Field(65_536, 64, MIB),
    # Buildpacks store bills of materials and configuration metadata in labels, hundreds of KiB in one.
    "Labels": _Field(1024, MIB, MIB),
}


def check_parts(data: bytes, what: str) -> None:
    """Reject a document with too many values before it is decoded. Raises Invalid, which names ``what``."""
    if data.count(b",") > _MAX_PARTS:
        raise Invalid(f"{what} has more than {_MAX_PARTS} values, which no image needs")


def check_config(config: ImageConfig, what: str) -> None:
    """Reject a configuration with a field that is too large or that no process can use. Invalid names both."""
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
    """Reject more names at once than an image may have. Raises Invalid, which names ``what``."""
    if len(names) > MAX_NAMES:
        raise Invalid(f"{what} has {len(names)} names; give it at most {MAX_NAMES}")


def with_newest_names(known: Sequence[str], brought: Sequence[str]) -> tuple[str, ...]:
    """Merge the known names of an image with those of a pull, at most MAX_NAMES: the oldest known names are dropped.

    A reproducible image gets another tag with each release, and it must be possible to pull it by each new tag.
    """
    names = tuple(dict.fromkeys((*known, *brought)))
    old = [name for name in names if name not in brought][: max(0, len(names) - MAX_NAMES)]
    return tuple(name for name in names if name not in old)


def _check_list(values: Sequence[str], name: str, limit: _Field, what: str) -> None:
    if len(values) > limit.count:
        raise Invalid(f"{what}: {name} of its configuration has {len(values)} values; the limit is {limit.count}")
    total = sum(_check_text(value, name, limit.each, what) for value in values)
    if total > limit.all:
        raise Invalid(f"{what}: {name} of its configuration has {total} bytes in all; the limit is {limit.all}")


def _check_text(value: str, name: str, limit: int, what: str) -> int:
    size = len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    if size > limit:
        raise Invalid(f"{what}: {name} of its configuration has a value of {size} bytes; the limit is {limit}")
    if "\0" in value:
        raise Invalid(f"{what}: {name} of its configuration has a NUL in {printable(value[:80])!r}")
    return size
