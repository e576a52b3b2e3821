"""Values of the certificate manager."""

from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """Files of a certificate (with its chain) and of its key, PEM; here always the same one."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Template:
    """What a certificate is to say."""

    signer: str
    organization: str
    common_name: str
    usages: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validity:
    """Unix times."""

    not_before: Seconds
    not_after: Seconds
