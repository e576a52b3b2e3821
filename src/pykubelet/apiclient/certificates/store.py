"""Certificates on disk, in the Go kubelet's layout, so that either kubelet can take over from the other.

``PREFIX-current.pem`` links to ``PREFIX-TIME.pem``, which holds the certificate and its key. The link is replaced
atomically: a reader sees the old pair or the new one.
"""

import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pykubelet.apiclient.certificates.certificate_types import CertificatePair, Contents, Validity
from pykubelet.apiclient.certificates.request import check_key, contents_of, matches_key, new_key, validity_of
from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.state_files import clear_path, read_state_file
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_MAX_FILE: Final = 1 << 20


class CertificateStore:
    """One series of certificates. All methods block briefly."""

    def __init__(self, directory: Path, prefix: str, *, initial: CertificatePair | None = None) -> None:
        """``initial`` is in force while nothing is stored: the files that a kubeconfig names, for example."""
        self._directory = directory
        self._prefix = prefix
        self._initial = initial

    @property
    def current(self) -> Path:
        """The link to the pair in force; it may not exist."""
        return self._directory / f"{self._prefix}-current.pem"

    @property
    def pair(self) -> CertificatePair:
        return CertificatePair(self.current, self.current)

    def validity(self) -> Validity | None:
        """Return the validity of the pair in force; None if there is no usable one."""
        found = self.contents()
        return None if found is None else found.validity

    def contents(self) -> Contents | None:
        """Return what the certificate in force says; None if there is no usable one."""
        return self.stored() or self._initial_contents()

    def stored(self) -> Contents | None:
        """Return what the stored certificate says; None if there is no usable one."""
        try:
            return read_state_file(self.current, _MAX_FILE, _pair_contents)
        except FileNotFoundError:
            return None
        except (OSError, Invalid) as error:
            _log.warning("stored certificate unusable", extra={"path": str(self.current), "error": str(error)})
            return None

    def _initial_contents(self) -> Contents | None:
        if self._initial is None:
            return None
        try:
            certificate = self._initial.certificate.read_bytes()
            return contents_of(certificate) if matches_key(certificate, self._initial.key.read_bytes()) else None
        except (OSError, Invalid):
            return None  # the client's own requests fail with the reason

    def pending_key(self) -> bytes:
        """Return the key of the pending request, stored so that a restarted agent continues the same request."""
        path = self._pending
        try:
            return read_state_file(path, _MAX_FILE, _checked_key)
        except FileNotFoundError:
            pass
        except (OSError, Invalid) as error:
            _log.warning(
                "key of the pending certificate request unusable", extra={"path": str(path), "error": str(error)}
            )
        key = new_key()
        self._write(path, key)
        return key

    def drop_pending(self) -> None:
        """Forget the pending request, which has failed: the next one uses another key."""
        self._pending.unlink(missing_ok=True)

    def put(self, certificate: bytes, key: bytes, now: Seconds) -> None:
        """Store a pair and put it in force. Raises Invalid if it does not match, Permanent if it cannot be written."""
        validity_of(certificate)
        if not matches_key(certificate, key):
            raise Invalid("the issued certificate does not match the requested key")
        name = f"{self._prefix}-{datetime.fromtimestamp(now, UTC):%Y-%m-%d-%H-%M-%S}.pem"
        self._write(self._directory / name, certificate.rstrip() + b"\n" + key)
        link = self._directory / f".{self._prefix}-current.tmp"
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(self._directory / name)
            clear_path(self.current)
            link.replace(self.current)
        except OSError as error:
            raise Permanent(f"{self.current}: cannot be written: {error.strerror}") from error
        self.drop_pending()
        self._remove_old(keep=name)

    @property
    def _pending(self) -> Path:
        return self._directory / f"{self._prefix}.key.tmp"

    def _remove_old(self, keep: str) -> None:
        """Remove all but the newest two pairs: the previous one may still be in use for a moment."""
        found = sorted(p for p in self._directory.glob(f"{self._prefix}-????-??-??-??-??-??.pem") if p.name != keep)
        for path in found[:-1]:
            with suppress(OSError):
                path.unlink()

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            clear_path(path)
            write_atomic(path, data, 0o600, durable=True)
        except OSError as error:
            raise Permanent(f"{path}: cannot be written: {os.strerror(error.errno or 0)}") from error


def _pair_contents(text: bytes) -> Contents:
    if not matches_key(text, text):
        raise Invalid("not a certificate with its key")
    return contents_of(text)


def _checked_key(text: bytes) -> bytes:
    check_key(text)
    return text
