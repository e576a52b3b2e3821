"""Values of the certificate manager."""

from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """Files of a certificate (with its chain) and of its key, PEM; here both are one file."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Template:
    """The content of a certificate to request."""

    signer: str
    organization: str
    common_name: str
    usages: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validity:
    """Begin and end of a certificate's validity, in Unix time."""

    not_before: Seconds
    not_after: Seconds
