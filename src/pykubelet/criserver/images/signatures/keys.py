"""Public keys that verify signatures of images, of the kinds that cosign accepts."""

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from pykubelet.base.errors import Invalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
_RSA_BITS: Final = range(2048, 8193)


@dataclass(frozen=True, slots=True)
class Key:
    """A public key."""

    fingerprint: str
    """SHA-256 of its SubjectPublicKeyInfo in DER, hexadecimal."""
    public: "EllipticCurvePublicKey | RSAPublicKey | Ed25519PublicKey" = field(compare=False, repr=False)

    def verifies(self, signature: bytes, payload: bytes) -> bool:
        """Whether the signature of the payload is by this key: ECDSA and RSA (PKCS #1 v1.5) with SHA-256, Ed25519."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            match self.public:
                case EllipticCurvePublicKey():
                    self.public.verify(signature, payload, ECDSA(SHA256()))
                case RSAPublicKey():
                    self.public.verify(signature, payload, PKCS1v15(), SHA256())
                case Ed25519PublicKey():
                    self.public.verify(signature, payload)
                case _:
                    assert_never(self.public)
        except InvalidSignature:
            return False
        return True


def load_key(data: bytes, what: str) -> Key:
    """Read a public key in PEM, as cosign and openssl write it. Raises Invalid, which names ``what``."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    if b"PRIVATE KEY" in data:
        raise Invalid(f"{what} is a private key; name the public one, and remove this one from the node")
    try:
        public = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid(f"{what} is not a public key in PEM ({str(error)[:200]})") from error
    match public:
        case EllipticCurvePublicKey() if public.curve.name in _CURVES:
            pass
        case RSAPublicKey() if public.key_size in _RSA_BITS:
            pass
        case Ed25519PublicKey():
            pass
        case _:
            raise Invalid(
                f"{what} is of a kind that is not supported; use ECDSA (P-256, P-384, P-521), Ed25519, or RSA of 2048 "
                "to 8192 bits"
            )
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Key(hashlib.sha256(encoded).hexdigest(), public)
