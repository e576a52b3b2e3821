"""Clients accept the certificates of servers with their own name and a trusted authority, and no others."""

import ssl
from pathlib import Path

import pytest

from pykubelet.base.http.tls_clients import system_context, verifying_context
from pykubelet.testing.cluster_ca import ClusterAuthority


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    """A server whose certificate has no key identifiers; ``ca.pem`` is its authority."""
    authority = ClusterAuthority.make("an authority")
    key, certificate = authority.server(["registry.local"], identifiers=False)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "server.pem").write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    return context


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default context is as strict as that of Python 3.13, on every version."""
    default = ssl.create_default_context

    def made(*, cafile: str | None = None) -> ssl.SSLContext:
        context = default(cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", made)


def greet(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """A handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(back, there, server_hostname=name)
    far = server.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert near.getpeercert()


@pytest.mark.usefixtures("strict")
def test_certificate_without_key_identifiers_is_accepted(server: ssl.SSLContext, tmp_path: Path) -> None:
    authorities = str(tmp_path / "ca.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="Key Identifier"):
        greet(ssl.create_default_context(cafile=authorities), server, "registry.local")
    greet(verifying_context(authorities), server, "registry.local")


@pytest.mark.usefixtures("strict")
def test_other_names_and_authorities_are_refused(server: ssl.SSLContext, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greet(verifying_context(str(tmp_path / "ca.pem")), server, "other.local")
    (tmp_path / "other.pem").write_bytes(ClusterAuthority.make("another").certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(verifying_context(str(tmp_path / "other.pem")), server, "registry.local")


def test_context_of_the_system_verifies() -> None:
    context = system_context()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
