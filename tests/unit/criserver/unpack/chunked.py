"""Layers of zstd:chunked, in the format that containers/storage writes (its package ``pkg/chunked``)."""

import hashlib
import io
import json
import struct
import tarfile

import zstandard

_SKIPPABLE = 0x184D2A50
_MAGIC = b"GNUlInUx"
_TOC_TYPE = 1


def frame(data: bytes) -> bytes:
    """A skippable frame of zstd."""
    return struct.pack("<II", _SKIPPABLE, len(data)) + data


def zstd_chunked(plain: bytes) -> bytes:
    """Pack a tar stream: a zstd frame for each file, then table of contents, tar-split data and footer to be skipped.

    The footer has eight numbers of 64 bits: offset, sizes and type of the table, offset and sizes of the tar-split
    data, and the magic number.
    """
    pieces, entries, at = [], [], 0
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        members = archive.getmembers()
    for member in members:
        if not member.isreg():
            continue
        before, content = plain[at : member.offset_data], plain[member.offset_data : member.offset_data + member.size]
        pieces += [before, content]
        at = member.offset_data + member.size
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        entries.append({"type": "reg", "name": member.name, "size": member.size, "digest": digest})
    pieces.append(plain[at:])
    stream = b"".join(zstandard.compress(piece) for piece in pieces)
    toc = json.dumps({"version": 1, "entries": entries}).encode()
    split = json.dumps({"type": 2, "payload": ""}).encode()
    packed_toc, packed_split = zstandard.compress(toc), zstandard.compress(split)
    toc_at = len(stream) + 8
    split_at = toc_at + len(packed_toc) + 8
    footer = struct.pack(
        "<7Q8s", toc_at, len(packed_toc), len(toc), _TOC_TYPE, split_at, len(packed_split), len(split), _MAGIC
    )
    return stream + frame(packed_toc) + frame(packed_split) + frame(footer)
