"""Archives made to do harm, or by odd tools: taken as what they are, or refused with the archive's name."""

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, PykubeletError, Unsupported
from pykubelet.criserver.images import ContentStore, Platform, manifests
from pykubelet.criserver.images.archive import ArchivedImage, read_archive
from pykubelet.criserver.images.manifests import digest_of

AMD64 = Platform("amd64", "linux")
LAYER = b"some layer"
Files = dict[str, bytes]


def blob(data: bytes) -> str:
    return f"blobs/sha256/{digest_of(data)[7:]}"


def descriptor(kind: str, data: bytes, **more: object) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data), **more}


def config(architecture: str = "amd64") -> bytes:
    rootfs = {"type": "layers", "diff_ids": [digest_of(LAYER)]}
    return json.dumps({"os": "linux", "architecture": architecture, "rootfs": rootfs}).encode()


def manifest(config_data: bytes) -> bytes:
    layers = [descriptor(manifests.OCI_LAYER, LAYER)]
    body = {"schemaVersion": 2, "config": descriptor(manifests.OCI_CONFIG, config_data), "layers": layers}
    return json.dumps({**body, "mediaType": manifests.OCI_MANIFEST}).encode()


def layout(*entries: dict[str, object]) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def oci(name: str = "localhost/a:1") -> Files:
    """A good one."""
    data, configured = manifest(config()), config()
    entry = descriptor(manifests.OCI_MANIFEST, data, annotations={"io.containerd.image.name": name})
    return {"index.json": layout(entry), blob(data): data, blob(configured): configured, blob(LAYER): LAYER}


def docker(*images: dict[str, object]) -> Files:
    default = {"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["l.tar"]}
    files = {"c.json": config(), "l.tar": LAYER}
    return {**files, "manifest.json": json.dumps(images or (default,)).encode()}


def pack(files: Files, *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info in extra:
            archive.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def read(data: bytes, directory: Path) -> list[ArchivedImage]:
    store = ContentStore(directory / "images")
    found = read_archive(io.BytesIO(data), "the archive", store, AMD64, lambda: False)
    assert list((directory / "images" / "ingest").iterdir()) == []
    for one in found:
        assert digest_of(store.path(one.manifest.digest).read_bytes()) == one.manifest.digest
    return found


def test_good_archives_are_read_with_their_tags(tmp_path: Path) -> None:
    assert [one.tags for one in read(pack(oci()), tmp_path)] == [("localhost/a:1",)]
    assert [(one.tags, one.genuine) for one in read(pack(docker()), tmp_path)] == [(("docker.io/library/a:1",), False)]
    many = docker(
        {"Config": "c.json", "RepoTags": ["a:1", "b:2"], "Layers": ["l.tar"]},
        {"Config": "./c.json", "RepoTags": None, "Layers": ["./l.tar"]},
    )
    assert [len(one.tags) for one in read(pack(many), tmp_path)] == [2, 0]
    assert [one.tags for one in read(pack({**oci(), **docker()}), tmp_path)] == [("localhost/a:1",)], "OCI goes first"


def test_archive_gives_names_and_the_image_of_this_platform(tmp_path: Path) -> None:
    arm, amd = manifest(config("arm64")), manifest(config())
    entries = [
        descriptor(manifests.OCI_MANIFEST, arm, platform={"os": "linux", "architecture": "arm64"}),
        descriptor(manifests.OCI_MANIFEST, amd, platform={"os": "linux", "architecture": "amd64"}),
        descriptor(manifests.OCI_MANIFEST, b"not in the archive"),
    ]
    index = layout(*entries)
    named = descriptor(manifests.OCI_INDEX, index, annotations={"org.opencontainers.image.ref.name": "quay.io/a/b:3"})
    files = {"index.json": layout(named), blob(index): index, blob(arm): arm, blob(amd): amd}
    (found,) = read(pack({**files, blob(LAYER): LAYER}), tmp_path)
    assert (found.manifest.digest, found.tags) == (digest_of(amd), ("quay.io/a/b:3",))
    for bare in ("latest", "", "x y/z:1"):
        entry = descriptor(manifests.OCI_MANIFEST, amd, annotations={"org.opencontainers.image.ref.name": bare})
        (found,) = read(pack({**files, "index.json": layout(entry)}), tmp_path)
        assert found.tags == ()


def without(files: Files, name: str) -> Files:
    return {key: value for key, value in files.items() if key != name}


def circle() -> Files:
    """Indexes that name indexes, deeper than anybody needs."""
    data = layout(descriptor(manifests.OCI_MANIFEST, manifest(config())))
    files = oci()
    for _ in range(6):
        files[blob(data)] = data
        data = layout(descriptor(manifests.OCI_INDEX, data))
    return {**files, "index.json": data}


def holes(data: bytes) -> bytes:
    """The first entry as a sparse file that says to be much larger than what is stored of it."""
    header = bytearray(data[:512])
    header[156:157] = b"S"
    header[386:410] = b"%011o\0%011o\0" % (1 << 32, int(header[124:135], 8))
    header[483:495] = b"%011o\0" % (1 << 32)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


BAD: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "only directories": lambda: pack({}, tarfile.TarInfo("a/")),
    "a blob of another digest": lambda: pack({**oci(), blob(LAYER): b"other data"}),
    "an invalid index": lambda: pack({**oci(), "index.json": b"[]"}),
    "an index of another kind": lambda: pack({**oci(), "index.json": manifest(config())}),
    "negative size": lambda: pack(
        {**oci(), "index.json": layout({**descriptor(manifests.OCI_MANIFEST, b""), "size": -1})}
    ),
    "no digest": lambda: pack(
        {**oci(), "index.json": layout({**descriptor(manifests.OCI_MANIFEST, b""), "digest": "../../etc/passwd"})}
    ),
    "indexes without an end": lambda: pack(circle()),
    "JSON that is deep": lambda: pack({**docker(), "manifest.json": b"[" * 100_000}),
    "manifest.json of text": lambda: pack({**docker(), "manifest.json": b"hello"}),
    "a layer that is missing": lambda: pack(without(docker(), "l.tar")),
    "a configuration that is missing": lambda: pack(without(docker(), "c.json")),
    "a layer outside": lambda: pack(docker({"Config": "c.json", "Layers": ["../../../etc/passwd"]})),
    "an absolute layer": lambda: pack(docker({"Config": "c.json", "Layers": ["/etc/passwd"]})),
    "a link out": lambda: pack(without(docker(), "l.tar"), link("l.tar", "/etc/passwd")),
    "a link to itself": lambda: pack(without(docker(), "l.tar"), link("l.tar", "l.tar")),
    "an invalid tag": lambda: pack(docker({"Config": "c.json", "RepoTags": ["UPPER:1"], "Layers": ["l.tar"]})),
    "cut": lambda: pack(oci())[:1500],
    "cut gzip": lambda: gzip.compress(pack(oci()))[:-20],
    "another compression": lambda: bz2.compress(pack(oci())),
    "a long name": lambda: pack({**oci(), "n" * 600: b"x"}),
    "a blob with holes": lambda: holes(pack(oci())),
    "a bomb": lambda: gzip.compress(pack({**oci(), "zeros": bytes(300 << 20)})),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_archives_are_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match=r"the archive|blob sha256"):
        read(BAD[name](), tmp_path)


def test_odd_names_are_only_looked_up(tmp_path: Path) -> None:
    """Entries that would write elsewhere, had anybody opened them."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    odd = {f"/{victim}": b"x", "../" * 20 + str(victim)[1:]: b"x", "a\\b": b"x", "dir": b"x", **oci()}
    assert len(read(pack(odd, link("dir", "/tmp"), link("blobs", "/tmp")), tmp_path)) == 1
    assert victim.read_text() == "precious"


def test_of_two_files_of_one_name_the_last_counts(tmp_path: Path) -> None:
    good = oci()
    twice = pack({"index.json": b"junk"})[:1024] + pack(good)
    assert len(read(twice, tmp_path)) == 1


class EndlessStream(io.RawIOBase):
    """Some bytes, and zeros ever after."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self.given = 0

    def read(self, size: int = -1, /) -> bytes:
        piece, self._begin = self._begin[:size], self._begin[size:]
        self.given += size
        return piece.ljust(size, b"\0")


@pytest.mark.parametrize("begin", [b"", pack(oci())])
def test_streams_without_an_end(tmp_path: Path, begin: bytes) -> None:
    file = EndlessStream(begin)
    with pytest.raises(Invalid, match="goes on after its end"):
        read_archive(file, "the archive", ContentStore(tmp_path / "images"), AMD64, lambda: False)  # type: ignore[arg-type]
    assert file.given < 100 << 20


def test_reading_stops_when_asked(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "images")
    with pytest.raises(Invalid, match="stopped"):
        read_archive(io.BytesIO(pack(oci())), "the archive", store, AMD64, lambda: True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.integers(0, 9000), st.binary(min_size=1, max_size=20))
def test_damage_anywhere_is_noticed_or_harmless(tmp_path: Path, at: int, damage: bytes) -> None:
    data = pack(oci())
    try:
        found = read(data[:at] + damage + data[at + len(damage) :], tmp_path)
        assert len(found) <= 1
    except PykubeletError as error:
        assert isinstance(error, Invalid | Unsupported)
