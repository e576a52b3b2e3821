"""The self-signed serving certificate of a node without another one: kept on disk, replaced before it expires."""

import ipaddress
import secrets
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pykubelet.base.files.atomic import write_atomic
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import CertFiles

_VALID: Final = timedelta(days=365)
_RENEW_BEFORE: Final = timedelta(days=30)
_BACKDATED: Final = timedelta(hours=1)
"""Backdating of the certificate, for clients whose clock is behind."""


def ensure_self_signed(directory: Path, host: str, addresses: Sequence[str], now: float) -> CertFiles:
    """Return ``kubelet.crt`` and ``kubelet.key`` (the Go kubelet's names), created if needed. Blocks (makes a key).

    An existing pair is kept while it is valid for another month and names this host and its addresses. ``now`` is Unix
    time.
    """
    files = CertFiles(directory / "kubelet.crt", directory / "kubelet.key")
    moment = datetime.fromtimestamp(now, UTC)
    if not _still_good(files, host, addresses, moment):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate, key = _make(host, addresses, moment)
        write_atomic(files.key, key, 0o600)
        write_atomic(files.certificate, certificate, 0o644)
    return files


def _still_good(files: CertFiles, host: str, addresses: Sequence[str], now: datetime) -> bool:
    # The standard library reads the certificate: cryptography, which can create one, costs 10 MB and is rarely needed.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.certificate)
        (found,) = context.get_ca_certs()
        begins, ends = (ssl.cert_time_to_seconds(str(found[key])) for key in ("notBefore", "notAfter"))
    except (OSError, ValueError, KeyError):
        return False
    names = found.get("subjectAltName", ())
    kept = {(str(kind), _normal(str(value))) for kind, value in names} if isinstance(names, tuple) else set()
    wanted = {("DNS", host), *(("IP Address", _normal(address)) for address in addresses)}
    return wanted <= kept and begins <= now.timestamp() <= ends - _RENEW_BEFORE.total_seconds()


def _normal(name: str) -> str:
    """Return an address in its normal form, any other name as it is."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name


def _make(host: str, addresses: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host}@{int(now.timestamp())}"[:64])])
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(secrets.token_bytes(16)) >> 1 | 1)
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
