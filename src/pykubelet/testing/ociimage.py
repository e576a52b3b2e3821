"""Build small OCI images from the machine's static busybox, so that tests and demos need no registry."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.base.errors import NotFound

_BUSYBOX = (Path("/bin/busybox"), Path("/usr/bin/busybox"))
_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\napp:x:1000:1000::/:/bin/sh\n"
_GROUP = b"root:x:0:\nnobody:x:65534:\napp:x:1000:\nextra:x:2000:app\n"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """Description of an image: its reference, its process, and files besides busybox (path → content)."""

    reference: str
    command: Sequence[str] = ("/bin/sh",)
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = ("PATH=/bin:/usr/bin:/sbin:/usr/sbin",)
    user: str = ""
    working_dir: str = "/"
    volumes: Sequence[str] = ()
    stop_signal: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links (path → target)."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the manifest."""
    bare: bool = False
    """Only the files: no busybox, no directories."""


def find_busybox() -> Path:
    """Find the static busybox of the machine; NotFound names the package that provides it."""
    for path in _BUSYBOX:
        if path.is_file():
            return path
    raise NotFound("no busybox in /bin or /usr/bin; install it with: apt-get install busybox-static")


def pause_image(reference: str) -> ImageSpec:
    """An infra image: one process that sleeps, ends on SIGTERM at once and lets the kernel reap its orphans."""
    script = "trap '' CHLD; exec sleep 2147483647"
    return ImageSpec(reference, ("/bin/sh", "-c", script))


def pack(spec: ImageSpec, target: Path, machine: str) -> None:
    """Write the image as an OCI archive (a tar of an OCI layout) to ``target``.

    ``machine`` is the kernel's name of the architecture (``os.uname().machine``). The archive is reproducible:
    equal input gives equal bytes, so an import of the same image again changes nothing.
    """
    layer = _layer(spec)
    blob = gzip.compress(layer, 6, mtime=0)
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {
                "Cmd": list(spec.command),
                "Entrypoint": list(spec.entrypoint) or None,
                "Env": list(spec.environment),
                "User": spec.user,
                "WorkingDir": spec.working_dir,
                "Volumes": {path: {} for path in spec.volumes} or None,
                "Labels": dict(spec.labels) or None,
                **({"StopSignal": spec.stop_signal} if spec.stop_signal else {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created_by": "busybox-static"}],
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
            "layers": [{"mediaType": _GZIP, "digest": _digest(blob), "size": len(blob)}],
            **({"annotations": dict(spec.annotations)} if spec.annotations else {}),
        }
    ).encode()
    index = json.dumps(
        {
            "schemaVersion": 2,
            "manifests": [
                {
                    "mediaType": _MANIFEST,
                    "digest": _digest(manifest),
                    "size": len(manifest),
                    "annotations": {
                        "io.containerd.image.name": spec.reference,
                        "org.opencontainers.image.ref.name": spec.reference.rpartition(":")[2],
                    },
                }
            ],
        }
    ).encode()
    blobs = {f"blobs/sha256/{_digest(data)[7:]}": data for data in (blob, config, manifest)}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs}
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w") as archive:
        for name, data in files.items():
            _add_file(archive, name, data, 0o644)


def _layer(spec: ImageSpec) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        if not spec.bare:
            _add_busybox(archive)
        files = spec.files if spec.bare else {"etc/passwd": _PASSWD, "etc/group": _GROUP, **spec.files}
        for name, data in files.items():
            _add_file(archive, name.lstrip("/"), data, 0o755 if name.endswith(".sh") else 0o644)
        for name, target in spec.links.items():
            _add_link(archive, name, target)
    return buffer.getvalue()


def _add_busybox(archive: tarfile.TarFile) -> None:
    busybox = find_busybox()
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777), ("var", 0o755)):
        _add_dir(archive, name, mode)
    for name in ("dev", "proc", "sys", "run", "home", "usr", "usr/bin", "sbin"):
        _add_dir(archive, name, 0o755)
    _add_file(archive, "bin/busybox", busybox.read_bytes(), 0o755)
    for applet in sorted(set(applets) - {"busybox"}):
        _add_link(archive, f"bin/{applet}", "busybox")


def _add_dir(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _add_file(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
