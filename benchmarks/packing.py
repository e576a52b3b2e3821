"""Images for the measurements of imports and pulls: one layer of files of one size, and a small file of its own."""

import hashlib
import io
import json
import os
import random
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

LAYER_BYTES = 200_000_000
"""Size of a layer, uncompressed."""
_DIRECTORY = 40
"""Number of files in a directory."""
_WORDS = 4_000
_LAYER = "application/vnd.oci.image.layer.v1.tar+"
_CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
"""Media type of the manifests."""


def gzip(data: bytes) -> bytes:
    """Compress by gzip, as one member."""
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    """Compress by zstd, as one frame."""
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(data)


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob with its media type."""

    media_type: str
    data: bytes

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.data).hexdigest()

    @property
    def descriptor(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data)}


@dataclass(frozen=True, slots=True)
class Image:
    """An image of one layer."""

    manifest: Blob
    config: Blob
    layer: Blob

    @property
    def blobs(self) -> tuple[Blob, ...]:
        return self.config, self.layer, self.manifest


class Template:
    """A layer of files of one size, compressed once; each image has one more small file that makes it unique."""

    def __init__(self, size: int, pack: Callable[[bytes], bytes] = gzip) -> None:
        chance = random.Random(size)
        words = [chance.randbytes(6).hex().encode() for _ in range(_WORDS)]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for number in range(LAYER_BYTES // size):
                directory = f"usr/lib/part{number // _DIRECTORY}"
                if number % _DIRECTORY == 0:
                    entry = tarfile.TarInfo(directory)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
                data = b" ".join(chance.choices(words, k=size // 13))
                add_file(archive, f"{directory}/file{number}", data)
        self._pack = pack
        self._plain = buffer.getvalue()
        self._packed = pack(self._plain)

    def image(self, name: str) -> Image:
        """The image with that text in its own file."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as own:
            add_file(own, "etc/name", name.encode())
            front = buffer.getvalue()  # without the blocks that end the stream
        rootfs = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(front + self._plain).hexdigest()]}
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
        config = json.dumps({"architecture": machine, "os": "linux", "config": {}, "rootfs": rootfs}).encode()
        layer = Blob(_LAYER + self._pack.__name__, self._pack(front) + self._packed)
        parts = Blob(_CONFIG, config), layer
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": parts[0].descriptor,
            "layers": [layer.descriptor],
        }
        return Image(Blob(MANIFEST, json.dumps(document).encode()), *parts)


def add_file(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a regular file to a tar archive."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
