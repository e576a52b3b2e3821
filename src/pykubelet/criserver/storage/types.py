"""What is written down of layers and of root file systems."""

from msgspec import Struct, field


class LayerMeta(Struct, frozen=True):
    """An unpacked layer; the file with this is what makes it exist."""

    directory: int = field(name="folder")
    """The name of its directory, a number; files of earlier versions call it so, too."""
    chain_id: str
    diff_id: str
    bytes: int
    inodes: int
    has_root: bool
    """Whether the layer has an entry for ``/`` itself, so that its directory carries that owner and mode."""
    boot: str
    """Id of the boot in which it was unpacked."""
    synced: bool = False
    """Whether it is on the disk for sure. One that is not, and is of an earlier boot, is not trusted."""


class RootfsMeta(Struct, frozen=True):
    """A container's root file system; the layers named here must stay."""

    image_id: str
    chain_ids: tuple[str, ...]
    """From the lowest layer up."""
