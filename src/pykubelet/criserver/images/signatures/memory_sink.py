"""A small blob in memory, checked against its digest. It never gets to the disk, so no crash can leave it there."""

from pykubelet.criserver.images.content import BadBlob
from pykubelet.criserver.images.manifests import Descriptor, digest_as


class MemorySink:
    """The target of the download of one blob; the caller has checked that its size is small."""

    def __init__(self, blob: Descriptor) -> None:
        self._blob = blob
        self._received = bytearray()
        self.offset = 0
        self.data = b""
        """The content; empty before ``commit``."""

    def restart(self) -> None:
        """Drop what was received."""
        self._received.clear()
        self.offset = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append data. Raises BadBlob as soon as there are more bytes than announced."""
        if self.offset + len(data) > self._blob.size:
            self.restart()
            raise BadBlob(f"blob {self._blob.digest} is longer than the {self._blob.size} bytes announced")
        self._received += data
        self.offset += len(data)

    def commit(self) -> None:
        """Check the digest. Raises BadBlob, and drops the data, if it does not match."""
        data, found = bytes(self._received), digest_as(self._blob.digest, bytes(self._received))
        if found != self._blob.digest or len(data) != self._blob.size:
            self.restart()
            raise BadBlob(f"blob {self._blob.digest} came as {found}")
        self.data = data
