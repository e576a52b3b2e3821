import logging
import ssl
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.serve.kubelet_api import tls_contexts
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import CertFiles, TlsConfig
from pykubelet.kubelet.serve.kubelet_api.tls_contexts import TlsContexts
from pykubelet.testing.certificates import Authority
from pykubelet.testing.limits import no_descriptors
from pykubelet.testing.loop_files import files_in_loop
from tests.unit.kubelet.serve.kubelet_api.world import NodeWorld, Pki, client_of, running_server


@pytest.fixture
def files(tmp_path: Path) -> CertFiles:
    issued = Authority(tmp_path / "ca").issue("node", ["127.0.0.1"])
    return CertFiles(issued.certificate, issued.key)


def test_context_is_reused_while_files_are_unchanged(files: CertFiles) -> None:
    contexts = TlsContexts(TlsConfig())
    first = contexts.current(files)
    assert contexts.current(files) is first
    assert first.minimum_version is ssl.TLSVersion.TLSv1_2
    assert first.verify_mode is ssl.CERT_NONE


def test_changed_certificate_is_reloaded(files: CertFiles, tmp_path: Path) -> None:
    contexts = TlsContexts(TlsConfig())
    first = contexts.current(files)
    other = Authority(tmp_path / "other").issue("node", ["127.0.0.1"])
    files.key.write_bytes(other.key.read_bytes())
    files.certificate.write_bytes(other.certificate.read_bytes())
    assert contexts.current(files) is not first


def test_half_written_certificate_keeps_the_previous_one_with_one_warning(
    files: CertFiles, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TlsContexts(TlsConfig())
    first = contexts.current(files)
    whole = files.certificate.read_bytes()
    files.certificate.write_bytes(whole[:100])
    with caplog.at_level(logging.WARNING):
        assert contexts.current(files) is first
        assert contexts.current(files) is first
    assert len(caplog.records) == 1
    files.certificate.write_bytes(whole)
    assert contexts.current(files) is not None


def test_certificate_that_cannot_be_read_for_the_moment_is_read_again(
    files: CertFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the former one would be served until it expires, or the next one is issued."""
    contexts = TlsContexts(TlsConfig())
    first = contexts.current(files)
    other = Authority(tmp_path / "other").issue("node", ["127.0.0.1"])
    files.key.write_bytes(other.key.read_bytes())
    files.certificate.write_bytes(other.certificate.read_bytes())
    with no_descriptors():
        assert contexts.current(files) is first
        assert contexts.current(files) is first
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    assert contexts.current(files) is not first


def test_key_of_another_certificate_is_refused_with_one_attempt(
    files: CertFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = TlsContexts(TlsConfig())
    first = contexts.current(files)
    files.key.write_bytes(Authority(tmp_path / "other").issue("node", ["127.0.0.1"]).key.read_bytes())
    assert contexts.current(files) is first
    monkeypatch.setattr(tls_contexts, "_context", lambda *_: pytest.fail("read again"))
    assert contexts.current(files) is first


def test_changed_client_ca_is_reloaded(files: CertFiles, tmp_path: Path) -> None:
    authority = tmp_path / "clients.pem"
    authority.write_bytes(Authority(tmp_path / "one").ca.read_bytes())
    contexts = TlsContexts(TlsConfig(client_ca=authority))
    first = contexts.current(files)
    assert first.verify_mode is ssl.CERT_OPTIONAL
    authority.write_bytes(Authority(tmp_path / "two", "another").ca.read_bytes())
    second = contexts.current(files)
    assert second is not first
    assert second.get_ca_certs()[0]["subject"] == ((("commonName", "another"),),)


def test_missing_files_are_named_in_the_error(files: CertFiles, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nowhere"):
        TlsContexts(TlsConfig(client_ca=tmp_path / "nowhere")).current(files)


def test_configured_tls_version_and_suites_are_in_force(files: CertFiles) -> None:
    config = TlsConfig("VersionTLS13", ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",))
    context = TlsContexts(config).current(files)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    names = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256"}


async def test_files_are_looked_at_in_a_thread_for_each_connection(tmp_path: Path) -> None:
    world = NodeWorld(tmp_path, Pki(tmp_path / "given"))
    async with running_server(world) as server, client_of(world, server) as client:
        with files_in_loop(tmp_path / "given") as used:
            async with client.get("/healthz") as response:
                assert response.status == 401
        assert used == []
