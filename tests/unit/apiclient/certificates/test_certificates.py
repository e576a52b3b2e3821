"""Certificates: renewal times, storage and signing requests."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiclient import load_kubeconfig
from pykubelet.apiclient.certificates import (
    BootstrapConfig,
    CertificateManager,
    CertificateStore,
    bootstrap,
    client_template,
    needs_bootstrap,
    serving_template,
)
from pykubelet.apiclient.certificates.certificate_types import Validity
from pykubelet.apiclient.certificates.plan.renewal import is_valid, rotate_at
from pykubelet.apiclient.certificates.request import new_key, signing_request, validity_of
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.testing.cluster_ca import ClusterAuthority
from pykubelet.testing.wait import until
from tests.unit.kubelet.apitools import Api, fake_api, running

PREFIX = "/apis/certificates.k8s.io/v1"
CSRS = "certificatesigningrequests"
TEMPLATE = client_template("n")


@pytest.fixture(scope="module")
def authority() -> ClusterAuthority:
    return ClusterAuthority.make("test")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with fake_api() as made:
        yield made


@given(st.floats(0, 1e9), st.floats(1, 1e8), st.floats(0, 1, exclude_max=True))
def test_renewal_is_between_70_and_90_percent_of_the_lifetime(start: float, life: float, chance: float) -> None:
    at = rotate_at(Validity(start, start + life), chance)
    assert start + 0.699 * life <= at <= start + 0.901 * life


def test_validity() -> None:
    # A certificate that begins later is kept: this node's clock was set back, the signer's was not.
    assert [is_valid(Validity(10, 20), now) for now in (9, 10, 19, 20)] == [True, True, True, False]
    assert not is_valid(None, 0)


def test_new_pair_is_put_in_force_atomically(tmp_path: Path, authority: ClusterAuthority) -> None:
    store = CertificateStore(tmp_path / "pki", "kubelet-client")
    assert store.validity() is None
    for number in range(4):
        key = store.pending_key()
        assert store.pending_key() == key, "an agent that restarts asks with the same key"
        certificate = authority.sign(signing_request(key, TEMPLATE))
        store.put(certificate, key, 1_700_000_000.0 + number)
        assert store.validity() == validity_of(certificate)
    files = sorted(path.name for path in (tmp_path / "pki").iterdir())
    assert files == [
        "kubelet-client-2023-11-14-22-13-22.pem",
        "kubelet-client-2023-11-14-22-13-23.pem",
        "kubelet-client-current.pem",
    ]
    assert store.current.resolve().name == files[1] and store.current.stat().st_mode & 0o777 == 0o600


def test_mismatched_certificate_and_key_are_rejected(tmp_path: Path, authority: ClusterAuthority) -> None:
    store = CertificateStore(tmp_path, "x")
    certificate = authority.sign(signing_request(new_key(), TEMPLATE))
    with pytest.raises(Invalid, match="does not match the requested key"):
        store.put(certificate, store.pending_key(), 0.0)
    with pytest.raises(Invalid):
        store.put(b"nonsense", store.pending_key(), 0.0)
    store.current.write_bytes(certificate + new_key())
    assert store.validity() is None


def test_a_serving_request_has_names_and_addresses() -> None:
    template = serving_template("n", ["n", "n"], ["10.0.0.1", "fd00::1"])
    assert template.dns_names == ("n",) and b"CERTIFICATE REQUEST" in signing_request(new_key(), template)
    with pytest.raises(Invalid):
        signing_request(b"nonsense", template)


async def sign_next(api: Api, authority: ClusterAuthority, **status: object) -> None:
    """Sign the pending request, or set its status."""
    await until(lambda: any("status" not in each for each in api.all(CSRS, PREFIX)))
    request = next(each for each in api.all(CSRS, PREFIX) if "status" not in each)
    certificate = authority.sign(base64.b64decode(request["spec"]["request"]), timedelta(hours=1))
    given = status or {"certificate": base64.b64encode(certificate).decode()}
    api.change(CSRS, request["metadata"]["name"], "", PREFIX, status=given)


async def test_manager_requests_certificates_and_notifies_subscribers(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    store = CertificateStore(tmp_path, "kubelet-server")
    manager = CertificateManager(client=api.client, store=store, template=lambda: TEMPLATE, clock=api.clock)
    told: list[bool] = []
    manager.subscribe(lambda: told.append(True))
    assert manager.current() is None
    async with running(manager.run()):
        await sign_next(api, authority)
        await until(lambda: told)
        pair = manager.current()
        assert pair is not None and pair.certificate == pair.key == store.current
        (request,) = api.all(CSRS, PREFIX)
        assert request["spec"]["signerName"] == TEMPLATE.signer
        # When the renewal is due, another certificate is requested.
        api.clock.shift = 3600 * 0.95
        await sign_next(api, authority)
        await until(lambda: len(told) == 2)


async def test_not_yet_valid_certificate_is_not_requested_again(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    store = CertificateStore(tmp_path, "kubelet-client")
    manager = CertificateManager(client=api.client, store=store, template=lambda: TEMPLATE, clock=api.clock)
    api.clock.jump = -7200.0
    async with running(manager.run()):
        await sign_next(api, authority)
        await until(manager.current)
        validity = store.validity()
        assert validity is not None and api.clock.now() < validity.not_before
        looks = api.clock.sleeps.count(60.0)
        await until(lambda: api.clock.sleeps.count(60.0) >= looks + 5)
        assert len(api.all(CSRS, PREFIX)) == 1
        assert manager.current() is not None


async def test_certificate_expired_when_issued_is_retried_with_back_off(
    api: Api, tmp_path: Path, authority: ClusterAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    manager = CertificateManager(
        client=api.client, store=CertificateStore(tmp_path, "x"), template=lambda: TEMPLATE, clock=api.clock
    )
    api.clock.jump = 7200.0  # the certificate is valid for an hour
    async with running(manager.run()):
        for _ in range(5):
            await sign_next(api, authority)
        await until(lambda: any(seconds >= 32.0 for seconds in api.clock.sleeps))
    for delay in (2.0, 4.0, 8.0, 16.0, 32.0):
        assert any(delay <= seconds <= 1.7 * delay for seconds in api.clock.sleeps), api.clock.sleeps
    (told,) = {getattr(record, "error", "") for record in caplog.records if record.levelname == "WARNING"}
    assert "already expired by this node's clock" in told


async def test_denied_request_is_retried_with_another_key(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    store = CertificateStore(tmp_path, "x")
    manager = CertificateManager(client=api.client, store=store, template=lambda: TEMPLATE, clock=api.clock)
    denied = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "not you"}]}
    key = store.pending_key()
    asked = asyncio.create_task(manager.request(TEMPLATE), name="request")
    await sign_next(api, authority, **denied)
    with pytest.raises(Permanent, match="Denied: No not you"):
        await asked
    assert store.pending_key() != key


async def test_unsigned_request_times_out_and_is_reused(api: Api, tmp_path: Path) -> None:
    manager = CertificateManager(
        client=api.client, store=CertificateStore(tmp_path, "x"), template=lambda: TEMPLATE, clock=api.clock
    )
    for _ in range(2):
        with pytest.raises(Transient, match="kubectl certificate approve node-csr-"):
            await manager.request(TEMPLATE, 0.05)
    assert len(api.all(CSRS, PREFIX)) == 1


async def test_bootstrapping_writes_a_kubeconfig(api: Api, tmp_path: Path, authority: ClusterAuthority) -> None:
    clock = SystemClock()
    first = tmp_path / "bootstrap.conf"
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.fake.config.server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    first.write_text(json.dumps(document))
    config = BootstrapConfig("n", tmp_path / "etc" / "kubelet.conf", first, tmp_path / "pki")
    assert needs_bootstrap(config.kubeconfig, clock)
    work = asyncio.create_task(bootstrap(config, clock), name="bootstrap")
    await sign_next(api, authority)
    await work
    assert not needs_bootstrap(config.kubeconfig, clock)
    loaded = load_kubeconfig(config.kubeconfig)
    assert loaded.server == api.fake.config.server
    assert loaded.user.certificate.file == str(tmp_path / "pki" / "kubelet-client-current.pem")
    assert config.kubeconfig.stat().st_mode & 0o777 == 0o600
    Path(loaded.user.certificate.file).unlink()
    assert needs_bootstrap(config.kubeconfig, clock)
    assert not needs_bootstrap(first, clock)
