"""A certificate authority that writes its certificates to files, for tests of programs that read them from files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pykubelet.testing.cluster_ca import ClusterAuthority


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """Paths of one certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; all files are in the directory, ``ca`` is the authority's own certificate."""

    def __init__(self, directory: Path, name: str = "pykubelet test authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = ClusterAuthority.make(name)
        self.ca = directory / "ca.pem"
        self.ca.write_bytes(self._authority.certificate_pem)

    def issue(self, name: str, hosts: Sequence[str] = (), group: str = "tests") -> IssuedCertificate:
        """Issue a certificate for a server with these names and addresses; without any, for a client in the group."""
        key, certificate = self._authority.server(hosts) if hosts else self._authority.client(name, group)
        issued = IssuedCertificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        issued.certificate.write_bytes(certificate)
        issued.key.write_bytes(key)
        return issued
