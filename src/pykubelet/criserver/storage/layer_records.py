"""The records of layers and root file systems on disk."""

from msgspec import Struct, field


class LayerMeta(Struct, frozen=True):
    """The record of an unpacked layer; a layer exists only with its record."""

    directory: int = field(name="folder")
    """The name of its directory, a number; the key in the file is that of earlier versions."""
    chain_id: str
    diff_id: str
    bytes: int
    inodes: int
    has_root: bool
    """Whether the layer has an entry for ``/`` itself, so that its directory carries that owner and mode."""
    boot: str
    """Id of the boot in which it was unpacked."""
    synced: bool = False
    """Whether the layer was synced to the disk. A layer of an earlier boot is not trusted without this."""


class RootfsMeta(Struct, frozen=True):
    """The record of a container's root file system; its layers must be kept."""

    image_id: str
    chain_ids: tuple[str, ...]
    """From the lowest layer up."""
    directories: tuple[int, ...] = ()
    """The layers' directories, in the same order; none in records of earlier versions."""
