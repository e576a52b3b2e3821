"""A registry that serves packed images over plain HTTP on loopback, for tests of real pulls."""

import base64
import contextlib
import hashlib
import json
import os
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.signing import ANNOTATION, PAYLOAD_TYPE, tag_of

_LOOK_SECONDS = 0.02
"""Seconds between two checks whether the server has to stop."""
_SMALL = 65536
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Conduct(StrEnum):
    """Behavior of a registry towards its clients."""

    SERVE = "serve"
    FAIL = "fail"
    """Respond to every request with 500."""
    LIE = "lie"
    """Serve layers whose content does not match their digest."""
    CUT = "cut"
    """Close the connection in the middle of a layer."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The served content: manifests by repository and tag or digest, blobs by digest."""

    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    """(content, digest) by (repository, tag or digest)."""
    blobs: dict[str, bytes] = field(default_factory=dict)


class Registry:
    """A running registry; use as a context manager. ``directory`` is scratch space."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._content = _Content()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._content, self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="registry", daemon=True
        )
        self.requests: list[str] = []
        """Requested paths, oldest first."""
        self.password = ""
        """Required ``user:password``; empty: none is required."""
        self.conduct = Conduct.SERVE
        """Current behavior; may be changed at any time."""
        self._open = threading.Event()
        self._open.set()
        self._halfway = threading.Event()
        self._halfway.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def host(self) -> str:
        """Address and port of the registry."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def reference(self, repository: str, tag: str = "1") -> str:
        """The reference of an image on this registry."""
        return f"{self.host}/{repository}:{tag}"

    def digest(self, repository: str, tag: str) -> str:
        """Digest of the manifest that the tag currently refers to."""
        return self._content.manifests[repository, tag][1]

    def hold(self) -> None:
        """Delay responses with layers until ``release``; configurations, which are small, are not delayed."""
        self._open.clear()

    def hold_halfway(self) -> None:
        """Delay the second half of layers until ``release``."""
        self._halfway.clear()

    def release(self) -> None:
        """End the delay of ``hold`` and ``hold_halfway``."""
        self._open.set()
        self._halfway.set()

    def wait(self) -> None:
        """Wait until layers are not delayed."""
        self._open.wait()

    def wait_halfway(self) -> None:
        """Wait until the second halves of layers are not delayed."""
        self._halfway.wait()

    def add(self, repository: str, tag: str = "1", **fields: object) -> str:
        """Build an image from busybox and serve it from now on; returns its reference."""
        reference = self.reference(repository, tag)
        archive = self._directory / f"{repository.replace('/', '_')}-{tag}.tar"
        pack(ImageSpec("localhost/packed:1", **fields), archive, os.uname().machine)  # type: ignore[arg-type]  # ImageSpec's own
        with tarfile.open(archive) as tar:
            files = {entry.name: tar.extractfile(entry) for entry in tar.getmembers() if entry.isfile()}
            content = {name: file.read() for name, file in files.items() if file is not None}
        archive.unlink()
        digest = json.loads(content["index.json"])["manifests"][0]["digest"]
        blobs = {f"sha256:{Path(name).name}": data for name, data in content.items() if name.startswith("blobs/")}
        self._content.blobs.update(blobs)
        for key in (tag, digest):
            self._content.manifests[repository, key] = (blobs[digest], digest)
        return reference

    def add_blob(self, data: bytes) -> str:
        """Serve a blob from now on; returns its digest."""
        digest = _digest(data)
        self._content.blobs[digest] = data
        return digest

    def describe(self, data: bytes, media_type: str, **annotations: str) -> Mapping[str, object]:
        """Serve a blob from now on; returns its descriptor."""
        described = {"mediaType": media_type, "digest": self.add_blob(data), "size": len(data)}
        return {**described, "annotations": annotations} if annotations else described

    def add_manifest(self, repository: str, tag: str, manifest: Mapping[str, object]) -> str:
        """Serve a manifest or an index from now on; returns its digest."""
        data = json.dumps({"schemaVersion": 2, "mediaType": _MANIFEST, **manifest}).encode()
        for key in (tag, _digest(data)):
            self._content.manifests[repository, key] = (data, _digest(data))
        return _digest(data)

    def add_artifact(self, repository: str, blobs: Sequence[Mapping[str, object]], **fields: object) -> str:
        """Serve an OCI artifact of blobs that ``describe`` has returned, without a configuration; its reference.

        ``fields`` replace those of the manifest.
        """
        config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": _digest(b"{}"), "size": 2, "data": "e30="}
        manifest = {"artifactType": "application/vnd.example.files", "config": config, "layers": list(blobs)}
        self.add_manifest(repository, "1", {**manifest, **fields})
        return self.reference(repository)

    def add_signature(self, repository: str, digest: str, payload: bytes, signature: str) -> None:
        """Serve a signature of a digest, as ``cosign sign`` pushes it; it replaces earlier ones."""
        layer = self.describe(payload, PAYLOAD_TYPE, **{ANNOTATION: signature})
        config = self.describe(b"{}", "application/vnd.oci.image.config.v1+json")
        self.add_manifest(repository, tag_of(digest), {"config": config, "layers": [layer]})


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _media_type(data: bytes) -> str:
    return str(json.loads(data).get("mediaType", _MANIFEST)) if data else ""


def _handler(content: _Content, registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Serves GET and HEAD of the distribution API's manifests and blobs."""

        def do_GET(self) -> None:
            registry.requests.append(self.path)
            parts = self.path.partition("?")[0].strip("/").split("/")
            given = self.headers.get("Authorization", "")
            if registry.conduct is Conduct.FAIL:
                self.send_response(500)
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif registry.password and given != "Basic " + base64.b64encode(registry.password.encode()).decode():
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="tests"')
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif self.path == "/v2/":
                self._answer(b"{}", "application/json", "")
            elif len(parts) >= 4 and parts[-2] == "manifests":
                data, digest = content.manifests.get(("/".join(parts[1:-2]), parts[-1]), (b"", ""))
                self._answer(data, _media_type(data), digest)
            elif len(parts) >= 4 and parts[-2] == "blobs":
                blob = content.blobs.get(parts[-1], b"")
                if len(blob) > _SMALL:
                    registry.wait()
                    blob = b"\0" * len(blob) if registry.conduct is Conduct.LIE else blob
                self._answer(blob, "application/octet-stream", parts[-1])
            else:
                self._answer(b"", "", "")

        do_HEAD = do_GET  # noqa: N815

        def _answer(self, data: bytes, media_type: str, digest: str) -> None:
            self.send_response(200 if data else 404)
            self.send_header("Content-Length", str(len(data)))
            if data:
                self.send_header("Content-Type", media_type)
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                cut = registry.conduct is Conduct.CUT and len(data) > _SMALL
                half = len(data) // 2
                with contextlib.suppress(ConnectionError):  # the client may have disconnected
                    self.wfile.write(data[:half])
                    if len(data) > _SMALL:
                        registry.wait_halfway()
                    self.wfile.write(b"" if cut else data[half:])

        def log_message(self, format: str, *arguments: object) -> None:
            """Discard the access log."""

    return Handler
