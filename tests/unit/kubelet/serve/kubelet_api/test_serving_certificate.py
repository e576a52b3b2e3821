import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from msgspec.structs import replace

from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import KubeletApiServerConfig
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import CertFiles
from pykubelet.kubelet.serve.kubelet_api.self_signed import ensure_self_signed
from pykubelet.kubelet.serve.kubelet_api.serving_certificate import ServingCertificate
from pykubelet.testing.clock import VirtualClock

NOW = 1_795_000_000.0
DAY = 86400.0


def made(directory: Path, host: str = "node-1", addresses: tuple[str, ...] = ("10.0.0.1",), now: float = NOW) -> bytes:
    return ensure_self_signed(directory, host, addresses, now).certificate.read_bytes()


def test_a_node_signs_for_its_name_and_addresses(tmp_path: Path) -> None:
    files = ensure_self_signed(tmp_path / "pki", "node-1", ("10.0.0.1", "fd00::1"), NOW)
    found = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days == 365
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)


@pytest.mark.parametrize(
    ("host", "addresses", "days", "kept"),
    [
        ("node-1", ("10.0.0.1",), 0, True),
        ("node-1", ("10.0.0.1",), 330, True),
        ("node-1", ("10.0.0.1",), 340, False),
        ("node-1", ("10.0.0.2",), 0, False),
        ("node-1", ("10.0.0.1", "0:0::1"), 0, False),
        ("node-1", (), 0, True),
        ("node-2", ("10.0.0.1",), 0, False),
    ],
)
def test_it_is_kept_as_long_as_it_is_right(
    tmp_path: Path, host: str, addresses: tuple[str, ...], days: int, kept: bool
) -> None:
    first = made(tmp_path)
    assert (made(tmp_path, host, addresses, NOW + days * DAY) == first) is kept


@pytest.mark.parametrize("name", ["kubelet.crt", "kubelet.key"])
def test_damaged_files_are_replaced(tmp_path: Path, name: str) -> None:
    made(tmp_path)
    (tmp_path / name).write_text("rubbish")
    made(tmp_path)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "kubelet.crt", tmp_path / "kubelet.key")


def test_ipv6_addresses_are_compared_as_addresses(tmp_path: Path) -> None:
    assert made(tmp_path, addresses=("fd00:0::1",)) == made(tmp_path, addresses=("fd00::0001",))


async def test_a_given_certificate_goes_before_the_own_one(tmp_path: Path) -> None:
    clock = VirtualClock(NOW)
    config = replace(KubeletApiServerConfig("node-1"), addresses=("10.0.0.1",), pki_dir=tmp_path)
    given: list[CertFiles] = []
    certificate = ServingCertificate(config=config, given=lambda: given[0] if given else None, clock=clock)
    own = await certificate.files()
    assert own.certificate == tmp_path / "kubelet.crt"
    given.append(CertFiles(Path("/a"), Path("/b")))
    assert await certificate.files() == given[0]
    given.clear()
    assert await certificate.files() == own


async def test_the_own_one_is_looked_at_once_a_day(tmp_path: Path) -> None:
    clock = VirtualClock(NOW)
    certificate = ServingCertificate(
        config=replace(KubeletApiServerConfig("node-1"), pki_dir=tmp_path), given=lambda: None, clock=clock
    )
    first = (await certificate.files()).certificate.read_bytes()
    await clock.advance(340 * DAY)
    assert (await certificate.files()).certificate.read_bytes() != first
