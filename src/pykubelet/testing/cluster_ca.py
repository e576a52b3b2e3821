"""A cluster's certificate authority in memory: issues the API server's certificate and signs requests."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEAR = timedelta(days=365)


def new_key() -> bytes:
    """Generate an RSA key, in PEM."""
    return _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@dataclass(frozen=True, slots=True)
class ClusterAuthority:
    """An authority that signs every request."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, name: str) -> "ClusterAuthority":
        """Create an authority of that name."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = _builder(subject, subject, key.public_key(), _YEAR)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, names: Sequence[str], *, identifiers: bool = True) -> tuple[bytes, bytes]:
        """(key, certificate) of a server with these names and addresses, in PEM; without key identifiers if asked."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        builder = _builder(subject, self.certificate.subject, key.public_key(), _YEAR)
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(n) for n in names]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return _pem(key), self._signed(builder, identifiers=identifiers)

    def client(self, user: str, group: str, life: timedelta = _YEAR) -> tuple[bytes, bytes]:
        """(key, certificate) of a client in a group, in PEM."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        builder = _builder(subject, self.certificate.subject, key.public_key(), life)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return _pem(key), self._signed(builder)

    def sign(self, request_pem: bytes, life: timedelta = _YEAR) -> bytes:
        """The certificate for a signing request, in PEM."""
        request = x509.load_pem_x509_csr(request_pem)
        public = request.public_key()
        assert isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey)
        builder = _builder(request.subject, self.certificate.subject, public, life)
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        for extension in request.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        return self._signed(builder)

    def _signed(self, builder: x509.CertificateBuilder, *, identifiers: bool = True) -> bytes:
        if identifiers:
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(identifier, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + life)
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
