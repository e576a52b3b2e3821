"""Generation of keys for pod certificates, each with an empty signing request that proves its possession."""

from collections.abc import Callable, Mapping
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pykubelet.base.errors import Invalid

_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_EXPONENT: Final = 65537
_KINDS: Final[Mapping[str, Callable[[], _Key]]] = {
    "RSA3072": lambda: rsa.generate_private_key(_EXPONENT, 3072),
    "RSA4096": lambda: rsa.generate_private_key(_EXPONENT, 4096),
    "ECDSAP256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ECDSAP384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ECDSAP521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "ED25519": ed25519.Ed25519PrivateKey.generate,
}


def new_key_and_request(kind: str) -> tuple[bytes, bytes]:
    """Return a key (PKCS #8, PEM) and a request without names (PKCS #10, DER). Takes up to seconds. Raises Invalid."""
    if kind not in _KINDS:
        raise Invalid(f'unknown key type "{kind}"; possible are {", ".join(_KINDS)}')
    key = _KINDS[kind]()
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return text, request.public_bytes(serialization.Encoding.DER)
