"""Public keys: the kinds that cosign accepts, and files that are refused."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.signatures import load_key
from pykubelet.testing.signing import KeyKind, new_signer

_PAYLOAD = b"payload"


@pytest.mark.parametrize("kind", KeyKind)
def test_signature_is_verified_by_its_own_key_only(kind: KeyKind) -> None:
    signer, other = new_signer(kind), new_signer(kind)
    signature = base64.b64decode(signer.sign(_PAYLOAD))
    key = load_key(signer.pem, "key")
    assert key.verifies(signature, _PAYLOAD)
    assert not key.verifies(signature, b"Payload")
    assert not key.verifies(signature[:-1], _PAYLOAD)
    assert not key.verifies(b"", _PAYLOAD)
    assert not load_key(other.pem, "key").verifies(signature, _PAYLOAD)
    assert key == load_key(signer.pem, "again") != load_key(other.pem, "key")


def test_key_of_another_kind_verifies_nothing() -> None:
    signature = base64.b64decode(new_signer(KeyKind.RSA).sign(_PAYLOAD))
    for kind in (KeyKind.ECDSA, KeyKind.ED25519):
        assert not load_key(new_signer(kind).pem, "key").verifies(signature, _PAYLOAD)


_Private = dsa.DSAPrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey


def _pem(private: _Private) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a public key in PEM"),
        (b"ssh-ed25519 AAAA", "not a public key in PEM"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a public key in PEM"),
        (_pem(rsa.generate_private_key(65537, 1024)), "not supported"),
        (_pem(ec.generate_private_key(ec.SECP256K1())), "not supported"),
        (_pem(dsa.generate_private_key(1024)), "not supported"),
        (_pem(x25519.X25519PrivateKey.generate()), "not supported"),
        (
            ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            "is a private key",
        ),
    ],
    ids=["empty", "ssh", "damaged", "short", "curve", "dsa", "exchange", "private"],
)
def test_other_keys_are_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=f"team.pub .*{why}"):
        load_key(data, "team.pub")
