"""A real registry for tests: the distribution project's, as Debian packs it (``docker-registry``), run privately.

It listens on loopback, keeps its data in one directory, and can require a password or tokens, which the token
service of this module issues. Images are pushed to it over its own API.
"""

import base64
import contextlib
import hashlib
import json
import re
import shutil
import ssl
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.testing.certificates import Authority, IssuedCertificate

PROGRAM = "docker-registry"
USER = "alice"
PASSWORD = "s3cret"
_BCRYPT = "$2y$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK"
"""bcrypt hash of ``PASSWORD``."""
_SERVICE = "pykubelet-tests"
_START_SECONDS = 15.0
_LISTENING = re.compile(rb"listening on (127\.0\.0\.1:\d+)")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the registry."""

    tls: IssuedCertificate | None = None
    client_ca: Path | None = None
    """CA of the certificates that clients must present; None: clients need no certificate."""
    pusher: IssuedCertificate | None = None
    """The certificate used for pushes, if clients need one."""
    password: bool = False
    """Require ``USER`` and ``PASSWORD``."""
    tokens: bool = False
    """Require tokens, which the token service issues to ``USER``."""


class DistributionRegistry:
    """A running registry; use as a context manager. ``host`` is set inside the block."""

    def __init__(self, directory: Path, options: Options | None = None) -> None:
        if shutil.which(PROGRAM) is None:
            raise NotFound(f"{PROGRAM} is missing; install it with: apt-get install {PROGRAM}")
        self._directory = directory
        self._options = options or Options()
        self._stack = contextlib.ExitStack()
        self._tokens: TokenService | None = None
        self.host = ""

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._options.tokens:
            self._tokens = self._stack.enter_context(TokenService(self._directory / "tokens"))
        (self._directory / "config.yml").write_text(json.dumps(self._configuration()))
        log = self._directory / "registry.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [PROGRAM, "serve", str(self._directory / "config.yml")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"HOME": str(self._directory), "OTEL_TRACES_EXPORTER": "none"},
            )
        self._stack.callback(_end, process)
        deadline = time.monotonic() + _START_SECONDS
        while (found := _LISTENING.search(log.read_bytes())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                self._stack.close()
                raise Permanent(f"{PROGRAM} did not come up:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)
        self.host = found[1].decode()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def push(self, archive: Path, repository: str, tag: str) -> str:
        """Push the only image of an OCI archive; returns the manifest's digest."""
        with tarfile.open(archive) as tar:
            files = {entry.name: tar.extractfile(entry) for entry in tar.getmembers() if entry.isfile()}
            content = {name: file.read() for name, file in files.items() if file is not None}
        entry = json.loads(content["index.json"])["manifests"][0]
        for name, data in content.items():
            if name.startswith("blobs/") and not name.endswith(entry["digest"][7:]):
                self.push_blob(repository, data)
        return self.push_manifest(repository, tag, entry["mediaType"], content[f"blobs/sha256/{entry['digest'][7:]}"])

    def push_blob(self, repository: str, data: bytes) -> str:
        """Push a blob; returns its digest."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        where = self._ask("POST", f"/v2/{repository}/blobs/uploads/", repository)["Location"]
        separator = "&" if "?" in where else "?"
        self._ask("PUT", f"{where}{separator}digest={digest}", repository, data, "application/octet-stream")
        return digest

    def push_manifest(self, repository: str, tag: str, media_type: str, data: bytes) -> str:
        """Push a manifest or an index under a tag; returns its digest."""
        self._ask("PUT", f"/v2/{repository}/manifests/{tag}", repository, data, media_type)
        return "sha256:" + hashlib.sha256(data).hexdigest()

    def _ask(self, method: str, url: str, repository: str, data: bytes = b"", kind: str = "") -> dict[str, str]:
        scheme = "https" if self._options.tls else "http"
        target = url if "://" in url else f"{scheme}://{self.host}{url}"
        request = urllib.request.Request(target, data=data, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        if self._options.password:
            request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
        if self._tokens is not None:
            request.add_header("Authorization", f"Bearer {self._tokens.token(repository, ['pull', 'push'])}")
        context = ssl._create_unverified_context() if self._options.tls else None
        if context is not None and self._options.pusher is not None:
            context.load_cert_chain(self._options.pusher.certificate, self._options.pusher.key)
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                return dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                raise Permanent(f"{method} {target}: {error.code} {error.read()[:500]!r}") from error

    def _configuration(self) -> dict[str, object]:
        options = self._options
        http: dict[str, object] = {"addr": "127.0.0.1:0"}
        if options.tls is not None:
            files: dict[str, object] = {"certificate": str(options.tls.certificate), "key": str(options.tls.key)}
            if options.client_ca is not None:
                files["clientcas"] = [str(options.client_ca)]
            http["tls"] = files
        document: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(self._directory / "data")}, "delete": {"enabled": True}},
            "http": http,
        }
        if options.password:
            (self._directory / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
            document["auth"] = {"htpasswd": {"realm": "tests", "path": str(self._directory / "htpasswd")}}
        if self._tokens is not None:
            document["auth"] = {"token": self._tokens.configuration()}
        return document


class TokenService:
    """Issues signed tokens to ``USER``, over plain HTTP on loopback. Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self._authority = Authority(directory)
        issued = self._authority.issue("tokens")
        key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        self._key = key
        self._certificate = "".join(issued.certificate.read_text().splitlines()[1:-1])
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _token_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="tokens", daemon=True)
        self.asked: list[str] = []
        """Requested paths, oldest first."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def configuration(self) -> dict[str, str]:
        """The registry's configuration for this service."""
        realm = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        return {"realm": realm, "service": _SERVICE, "issuer": _SERVICE, "rootcertbundle": str(self._authority.ca)}

    def token(self, repository: str, actions: list[str]) -> str:
        """A token for one repository."""
        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [self._certificate]}
        claims = {
            "iss": _SERVICE,
            "aud": _SERVICE,
            "sub": USER,
            "nbf": now - 60,
            "iat": now,
            "exp": now + 300,
            "jti": str(time.monotonic_ns()),
            "access": [{"type": "repository", "name": repository, "actions": actions}],
        }
        signed = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(claims).encode())}"
        return f"{signed}.{_encode(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _token_handler(service: TokenService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Serves one kind of request: a pull token, for clients that send the password."""

        def do_GET(self) -> None:
            service.asked.append(self.path)
            wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            scope = re.search(r"scope=repository:(.+?):pull", urllib.parse.unquote(self.path))
            good = self.headers.get("Authorization", "") == wanted and scope is not None
            body = {"token": service.token(scope[1], ["pull"])} if good and scope is not None else {}
            data = json.dumps(body).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Discard the access log."""

    return Handler


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
