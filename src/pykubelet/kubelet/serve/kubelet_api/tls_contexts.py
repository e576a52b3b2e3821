"""TLS contexts of the server, rebuilt when a certificate or the client CA changes on disk.

The files are checked when a connection arrives, so no polling and no restart is needed.
"""

import logging
import ssl
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from pykubelet.base.errors import PASSING, Invalid
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import CertFiles, TlsConfig
from pykubelet.kubelet.serve.kubelet_api.plan.ciphers import ciphers, minimum_version

_log = logging.getLogger(__name__)

_Mark: TypeAlias = tuple[tuple[str, int, int, int], ...]


class _MarkedContext(Struct, frozen=True):
    mark: _Mark
    context: ssl.SSLContext


class TlsContexts:
    """Provides the context for the next connection, in one thread at a time. Blocks."""

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._made: _MarkedContext | None = None
        self._refused: _Mark | None = None
        self._reported: _Mark | None = None

    def current(self, files: CertFiles) -> ssl.SSLContext:
        """Return the context for the files in their present state.

        If the files are unusable, the previous context stays in force and one warning is logged for each state of the
        files; those that cannot be read for the moment are read again. Invalid: there is no previous context.
        """
        paths = [files.certificate, files.key, *([self._config.client_ca] if self._config.client_ca else [])]
        mark = tuple(_mark(path) for path in paths)
        if self._made is not None and mark in (self._made.mark, self._refused):
            return self._made.context
        try:
            self._made = _MarkedContext(mark, _context(self._config, files))
        except (OSError, ssl.SSLError) as error:
            if self._made is None:
                named = ", ".join(str(path) for path in paths)
                raise Invalid(
                    f"the serving certificate, its key or the client CA cannot be used ({named}): {error}"
                ) from error
            # OpenSSL's errors have numbers of their own: that of a key which does not match is ESTALE's.
            if isinstance(error, ssl.SSLError) or error.errno not in PASSING:
                self._refused = mark
            if mark != self._reported:
                self._reported = mark
                fields = {"certificate": str(files.certificate), "error": str(error)}
                _log.warning("serving certificate unusable; keeping the previous one", extra=fields)
        else:
            _log.info("serving certificate loaded", extra={"certificate": str(files.certificate)})
        return self._made.context


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that a serving certificate and its key can be used. Raises Invalid, which names the field. Blocks."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise Invalid(
            f"tlsCertFile: the certificate {certificate} and the key {key} cannot be used: {error}; name a pair in PEM "
            "format without a password, or leave tlsCertFile and tlsPrivateKeyFile out"
        ) from error


def check_client_ca(path: Path) -> None:
    """Check that the CA of client certificates can be used. Raises Invalid, which names the field. Blocks."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise Invalid(
            f"authentication.x509.clientCAFile: {path} cannot be used: {error}; name certificates in PEM format"
        ) from error


def _no_password() -> str:
    """Return no password: without this function, OpenSSL would ask on the terminal."""
    return ""


def _mark(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_ino, found.st_mtime_ns, found.st_size


def _context(config: TlsConfig, files: CertFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum_version(config.min_version)
    context.set_ciphers(ciphers(config.cipher_suites))
    context.set_alpn_protocols(["http/1.1"])
    # A renegotiation costs the server much more than the client; session tickets would outlive a new client CA.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.load_cert_chain(files.certificate, files.key)
    if config.client_ca is not None:
        context.load_verify_locations(config.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
