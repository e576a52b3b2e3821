"""Certificates of an authority of its own, for tests of TLS."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """Files of one certificate, PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; all files lie in the folder, the authority's own is ``ca``."""

    def __init__(self, folder: Path, name: str = "pykubelet test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        made = self._sign(self._name, self._key.public_key(), (), authority=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, hosts: Sequence[str] = (), groups: Sequence[str] = ()) -> Issued:
        """A certificate for a server of these names and addresses, or for a client that is in these groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        groups_named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *groups_named])
        issued = Issued(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        made = self._sign(subject, key.public_key(), hosts, authority=False)
        issued.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return issued

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, hosts: Sequence[str], *, authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 10 * _DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(name) for name in hosts]), False)
        return builder.sign(self._key, hashes.SHA256())


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
