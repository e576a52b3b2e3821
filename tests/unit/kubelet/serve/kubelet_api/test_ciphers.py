import ssl

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.serve.kubelet_api.plan import ciphers as tls_settings
from pykubelet.kubelet.serve.kubelet_api.plan.ciphers import DEFAULT_CIPHERS, ciphers, minimum_version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS12", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_minimum_tls_version_is_that_of_its_name(name: str, version: ssl.TLSVersion) -> None:
    assert minimum_version(name) is version


def test_an_unknown_version_is_named_with_those_there_are() -> None:
    with pytest.raises(Invalid, match="VersionTLS13"):
        minimum_version("TLS1.3")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], DEFAULT_CIPHERS),
        (["TLS_AES_128_GCM_SHA256"], DEFAULT_CIPHERS),
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "ECDHE-RSA-AES128-GCM-SHA256"),
        (
            ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_CBC_SHA"],
            "ECDHE-ECDSA-CHACHA20-POLY1305:AES128-SHA",
        ),
    ],
)
def test_suites_by_their_names_in_openssl(names: list[str], text: str) -> None:
    assert ciphers(names) == text


def test_unknown_suites_are_all_named() -> None:
    with pytest.raises(Invalid, match="TLS_RSA_WITH_RC4_128_SHA, NONSENSE"):
        ciphers(["TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_128_GCM_SHA256", "NONSENSE"])


def test_openssl_knows_every_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in tls_settings._SUITES:
        context.set_ciphers(f"{ciphers([name])}:@SECLEVEL=0")
