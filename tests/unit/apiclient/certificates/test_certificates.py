"""Certificates: renewal times, storage and signing requests."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiclient import ApiClient, load_kubeconfig
from pykubelet.apiclient.certificates import (
    BootstrapConfig,
    CertificateManager,
    CertificatePair,
    CertificateStore,
    Template,
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


def test_certificate_is_valid_from_its_first_to_its_last_second() -> None:
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
    reported: list[bool] = []
    manager.subscribe(lambda: reported.append(True))
    assert manager.current() is None
    async with running(manager.run()):
        await sign_next(api, authority)
        await until(lambda: reported)
        pair = manager.current()
        assert pair is not None and pair.certificate == pair.key == store.current
        (request,) = api.all(CSRS, PREFIX)
        assert request["spec"]["signerName"] == TEMPLATE.signer
        # When the renewal is due, another certificate is requested.
        api.clock.shift = 3600 * 0.95
        await sign_next(api, authority)
        await until(lambda: len(reported) == 2)


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
    (reported,) = {getattr(record, "error", "") for record in caplog.records if record.levelname == "WARNING"}
    assert "already expired by this node's clock" in reported


@dataclass
class RenewalCounter:
    """Counts renewals."""

    failed: int = 0
    lived: list[float] = field(default_factory=list)

    def renewal_failed(self) -> None:
        self.failed += 1

    def replaced(self, lived: float) -> None:
        self.lived.append(lived)


async def test_certificate_follows_the_template(api: Api, tmp_path: Path, authority: ClusterAuthority) -> None:
    store = CertificateStore(tmp_path, "kubelet-server")
    wanted: list[Template | None] = [None]
    counted = RenewalCounter()
    manager = CertificateManager(
        client=api.client, store=store, template=lambda: wanted[0], clock=api.clock, observer=counted
    )

    def become(*addresses: str) -> None:
        wanted[0] = serving_template("n", ["n"], addresses)
        manager.poke()

    async with running(manager.run()):
        become("10.0.0.1")
        await sign_next(api, authority)
        await until(lambda: manager.current() is not None)
        # A change while nothing is due, and one while a request waits for its signature.
        become("10.0.0.2", "fd00::1")
        await until(lambda: len(api.all(CSRS, PREFIX)) == 2)
        become("10.0.0.3")
        await until(lambda: len(api.all(CSRS, PREFIX)) == 3)
        requests = {each["metadata"]["name"]: each for each in api.all(CSRS, PREFIX) if "status" not in each}
        for name, request in requests.items():
            signed = authority.sign(base64.b64decode(request["spec"]["request"]), timedelta(hours=1))
            api.change(CSRS, name, "", PREFIX, status={"certificate": base64.b64encode(signed).decode()})
        await until(lambda: (found := store.contents()) is not None and found.addresses == ("10.0.0.3",))
        # A certificate that has more than it needs is kept.
        wanted[0] = serving_template("n", [], ["10.0.0.3"])
        manager.poke()
        looks = api.clock.sleeps.count(60.0)
        await until(lambda: api.clock.sleeps.count(60.0) >= looks + 3)
    assert len(api.all(CSRS, PREFIX)) == 3
    assert counted.failed == 0 and len(counted.lived) == 1


async def test_certificate_without_the_requested_names_is_not_requested_in_a_hurry(
    api: Api, tmp_path: Path, authority: ClusterAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    template = serving_template("n", ["n"], ["10.0.0.1"])
    store, counted = CertificateStore(tmp_path, "kubelet-server"), RenewalCounter()
    manager = CertificateManager(
        client=api.client, store=store, template=lambda: template, clock=api.clock, observer=counted
    )
    async with running(manager.run()):
        for _ in range(3):
            await until(lambda: any("status" not in each for each in api.all(CSRS, PREFIX)))
            request = next(each for each in api.all(CSRS, PREFIX) if "status" not in each)
            bare = authority.sign(signing_request(store.pending_key(), TEMPLATE), timedelta(hours=1))
            done = {"certificate": base64.b64encode(bare).decode()}
            api.change(CSRS, request["metadata"]["name"], "", PREFIX, status=done)
        await until(lambda: counted.failed >= 3)
    assert any(2.0 <= s <= 3.0 for s in api.clock.sleeps) and any(4.0 <= s <= 5.0 for s in api.clock.sleeps)
    assert any("check the signer" in getattr(record, "error", "") for record in caplog.records)


async def test_expired_certificate_is_requested_with_bootstrap_credentials(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    store = CertificateStore(tmp_path, "kubelet-client")
    made: list[ApiClient] = []

    def bootstrap_client() -> ApiClient | None:
        made.append(ApiClient(api.fake.config, api.clock, agent="with-the-bootstrap-token"))
        return made[-1]

    manager = CertificateManager(
        client=api.client, store=store, template=lambda: TEMPLATE, clock=api.clock, bootstrap=bootstrap_client
    )
    async with running(manager.run()):
        await sign_next(api, authority)
        await until(lambda: manager.current() is not None)
        api.clock.shift = 3600 * 0.95  # renewed with the certificate itself
        await sign_next(api, authority)
        await until(lambda: len(api.all(CSRS, PREFIX)) == 2)
        assert len(made) == 1
        api.clock.shift = 3 * 3600.0  # expired
        await until(lambda: len(made) == 2)


async def test_renewal_that_is_not_signed_before_the_end_goes_on_with_bootstrap_credentials(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    """The node's own credentials are worth nothing then; they may not even see that the request is signed."""
    made: list[ApiClient] = []

    def bootstrap_client() -> ApiClient | None:
        made.append(ApiClient(api.fake.config, api.clock, agent="with-the-bootstrap-token"))
        return made[-1]

    store = CertificateStore(tmp_path, "kubelet-client")
    key = store.pending_key()
    store.put(authority.sign(signing_request(key, TEMPLATE), timedelta(hours=1)), key, api.clock.now())
    validity = store.validity()
    assert validity is not None
    api.clock.shift = validity.not_after - api.clock.now() - 1
    manager = CertificateManager(
        client=api.client, store=store, template=lambda: TEMPLATE, clock=api.clock, bootstrap=bootstrap_client
    )
    reported: list[bool] = []
    manager.subscribe(lambda: reported.append(True))
    async with running(manager.run()):
        await until(lambda: made and api.all(CSRS, PREFIX))
        (request,) = api.all(CSRS, PREFIX)  # the request of before, which may be signed by now
        assert "status" not in request
        api.clock.shift = 0.0  # the fake authority signs for an hour from now
        await sign_next(api, authority)
        await until(lambda: reported)


async def test_an_agent_without_a_valid_certificate_ends_only_if_the_server_responds(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = CertificateManager(
        client=api.client, store=CertificateStore(tmp_path, "x"), template=lambda: TEMPLATE, clock=api.clock
    )
    lost = asyncio.create_task(manager.end_when_lost(300.0), name="lost")
    await until(lambda: api.clock.sleeps)
    api.clock.shift = 301.0
    await until(lambda: "does not respond" in caplog.text)
    assert not lost.done()
    with pytest.raises(Transient):
        await manager.request(TEMPLATE, 0.05)  # the server accepts the request, but no one signs it
    with pytest.raises(Permanent, match=r"no valid client certificate for 300 s.*bootstrap kubeconfig"):
        await lost


async def test_an_agent_with_a_valid_certificate_does_not_end(
    api: Api, tmp_path: Path, authority: ClusterAuthority
) -> None:
    manager = CertificateManager(
        client=api.client, store=CertificateStore(tmp_path, "x"), template=lambda: TEMPLATE, clock=api.clock
    )
    async with running(manager.run()):
        await sign_next(api, authority)
        await until(lambda: manager.current() is not None and manager.seconds_left() < 3601)
        lost = asyncio.create_task(manager.end_when_lost(300.0), name="lost")
        api.clock.shift = 1000.0
        looks = api.clock.sleeps.count(10.0)
        await until(lambda: api.clock.sleeps.count(10.0) >= looks + 3)
        assert not lost.done()
        lost.cancel()
        await asyncio.wait([lost])


def test_files_of_the_kubeconfig_count_until_a_certificate_is_stored(
    tmp_path: Path, authority: ClusterAuthority
) -> None:
    key = new_key()
    first = tmp_path / "first.pem"
    first.write_bytes(authority.sign(signing_request(key, TEMPLATE), timedelta(hours=1)) + key)
    store = CertificateStore(tmp_path / "pki", "kubelet-client", initial=CertificatePair(first, first))
    assert store.validity() == validity_of(first.read_bytes()) and store.stored() is None
    other = store.pending_key()
    certificate = authority.sign(signing_request(other, TEMPLATE), timedelta(hours=2))
    store.put(certificate, other, 1_700_000_000.0)
    assert store.validity() == validity_of(certificate)


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
