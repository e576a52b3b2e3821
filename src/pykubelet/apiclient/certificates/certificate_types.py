"""Values of the certificate manager."""

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Seconds


class CertificatePair(Struct, frozen=True):
    """Files of a certificate (with its chain) and of its key, PEM; here both are one file."""

    certificate: Path
    key: Path


class Template(Struct, frozen=True):
    """The content of a certificate to request."""

    signer: str
    organization: str
    common_name: str
    usages: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Validity(Struct, frozen=True):
    """Begin and end of a certificate's validity, in Unix time."""

    not_before: Seconds
    not_after: Seconds


class Contents(Struct, frozen=True):
    """Validity, subject and alternative names of a certificate."""

    validity: Validity
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class RenewalObserver(Protocol):
    """Counts renewals, for metrics."""

    def renewal_failed(self) -> None:
        """Note that a certificate could not be renewed."""

    def replaced(self, lived: Seconds) -> None:
        """Note that a new certificate replaced one that had begun that many seconds before."""


class NoRenewalObserver:
    """A `RenewalObserver` that ignores everything."""

    def renewal_failed(self) -> None: ...

    def replaced(self, lived: Seconds) -> None: ...
