"""Keys and signatures of images as cosign makes them, for tests."""

import base64
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
CLAIM_TYPE = "cosign container image signature"


class KeyKind(StrEnum):
    """The kinds of keys that cosign accepts."""

    ECDSA = "ecdsa-p256"
    RSA = "rsa"
    ED25519 = "ed25519"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key."""

    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

    @property
    def pem(self) -> bytes:
        """The public key, as ``cosign.pub`` has it."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, payload: bytes) -> str:
        """Sign a payload; returns the value of the annotation."""
        match self.private:
            case ec.EllipticCurvePrivateKey():
                signature = self.private.sign(payload, ec.ECDSA(SHA256()))
            case rsa.RSAPrivateKey():
                signature = self.private.sign(payload, padding.PKCS1v15(), SHA256())
            case ed25519.Ed25519PrivateKey():
                signature = self.private.sign(payload)
            case _:
                assert_never(self.private)
        return base64.b64encode(signature).decode()


def new_signer(kind: KeyKind = KeyKind.ECDSA) -> Signer:
    """Make a key."""
    match kind:
        case KeyKind.ECDSA:
            return Signer(ec.generate_private_key(ec.SECP256R1()))
        case KeyKind.RSA:
            return Signer(rsa.generate_private_key(65537, 2048))
        case KeyKind.ED25519:
            return Signer(ed25519.Ed25519PrivateKey.generate())


def claim(repository: str, digest: str, kind: str = CLAIM_TYPE) -> bytes:
    """The payload that ``cosign sign`` signs: this digest is an image of this repository."""
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": kind,
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def tag_of(digest: str) -> str:
    """The tag of the manifest with the signatures of a digest."""
    return f"{digest.replace(':', '-')}.sig"
