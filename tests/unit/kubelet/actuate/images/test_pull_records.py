"""Records of pulled images: files, policies, what a pull adds, and which pods may use a present image."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.images.plan import pull_records as plan
from pykubelet.kubelet.actuate.images.plan.keyring import SECRET, SERVICE_ACCOUNT, Owner, RegistryCredentials
from pykubelet.kubelet.actuate.images.plan.pull_records import (
    AccountRef,
    Policy,
    PullCheck,
    PullCredentials,
    PulledRecord,
    SecretRef,
    Verification,
)
from pykubelet.kubelet.actuate.images.pulled_images import _MAX_FILE

REPOSITORY: Final = "docker.io/library/app"
NODE: Final = PullCredentials(node_pods_accessible=True)


def given(name: str, password: str = "pw", kind: str = SECRET, uid: str = "") -> RegistryCredentials:
    return RegistryCredentials("user", password, owner=Owner(kind, "shop", name, uid or f"uid-{name}"))


def recorded(*used: RegistryCredentials) -> PullCredentials:
    found = None
    for each in used:
        found = plan.merged(found, plan.credentials_of_pull(each))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("docker.io/testing/test:latest", "sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56"),
        ("testimageref", "sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064"),
    ],
)
def test_file_names_are_those_of_the_go_kubelet(name: str, file: str) -> None:
    assert plan.file_name(name) == file


def test_intent_is_the_text_of_the_go_kubelet() -> None:
    text = b'{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"app:1"}\n'
    assert plan.write_intent("app:1") == text
    assert plan.read_intent(text) == "app:1"
    assert plan.read_intent(text.replace(b"v1beta1", b"v1alpha1")) == "app:1"


def test_record_of_the_go_kubelet_is_read_and_written() -> None:
    text = (
        b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",'
        b'"lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"sha256:1","credentialMapping":{"docker.io/library/app":'
        b'{"kubernetesSecrets":[{"namespace":"default","name":"s","uid":"u","credentialHash":"h"}],'
        b'"kubernetesServiceAccounts":[{"namespace":"default","name":"a","uid":"v"}]},'
        b'"docker.io/library/other":{"nodePodsAccessible":true}}}\n'
    )
    record = PulledRecord(
        last_updated_time=datetime(2024, 10, 21, 12, 26, 40, tzinfo=UTC),
        image_ref="sha256:1",
        credential_mapping={
            REPOSITORY: PullCredentials(
                kubernetes_secrets=(SecretRef("default", "s", "u", "h"),),
                kubernetes_service_accounts=(AccountRef("default", "a", "v"),),
            ),
            "docker.io/library/other": NODE,
        },
    )
    assert plan.read_record(text) == record
    assert plan.read_record(text.replace(b"v1beta1", b"v1alpha1")) == record
    assert plan.write_record(record) == text
    empty = PulledRecord(last_updated_time=record.last_updated_time, image_ref="sha256:1")
    assert plan.read_record(plan.write_record(empty)) == empty


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"kind":"ImagePulledRecord"}',
        b'{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"a"}',
        b'{"kind":"ImagePulledRecord","apiVersion":"v1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"a"}',
        b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"a"}',
        b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",'
        b'"lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"a","more":1}',
        b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",'
        b'"lastUpdatedTime":"0001-01-01T00:00:00","imageRef":"a"}',
    ],
)
def test_damaged_record_is_rejected(text: bytes) -> None:
    with pytest.raises((Invalid, msgspec.MsgspecError)):
        plan.read_record(text)


@pytest.mark.parametrize(
    ("policy", "preloaded", "pulled", "allowed"),
    [
        (Policy.NEVER, False, False, False),
        (Policy.PULLED, False, True, True),
        (Policy.NOT_ALLOWED, True, True, False),
        (Policy.ALWAYS, True, True, True),
    ],
)
def test_credential_verification_follows_its_policy(
    policy: Policy, preloaded: bool, pulled: bool, allowed: bool
) -> None:
    """The last column: a pulled image that the allowlist has."""
    verification = Verification(policy, ("r.io/base/*", "docker.io/library/busybox"))
    assert verification.requires("r.io/app", False) is preloaded
    assert verification.requires("r.io/app", True) is pulled
    assert verification.requires("r.io/base/os", True) is allowed
    assert verification.requires("docker.io/library/busybox", True) is allowed
    assert verification.requires("docker.io/library/busybox2", True) is pulled
    assert verification.requires("r.io/base", True) is pulled


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        (RegistryCredentials("u", "p"), '{"username":"u","password":"p"}'),
        (RegistryCredentials("u", "p", "e@x"), '{"username":"u","password":"p","email":"e@x"}'),
        (RegistryCredentials("", "p"), '{"password":"p"}'),
        (RegistryCredentials("u", '<&>"\\é'), '{"username":"u","password":"\\u003c\\u0026\\u003e\\"\\\\é"}'),
    ],
)
def test_hash_is_that_of_gos_json(credentials: RegistryCredentials, text: str) -> None:
    assert plan.credential_hash(credentials) == hashlib.sha256(text.encode()).hexdigest()


def test_pull_records_the_credentials_by_their_source() -> None:
    assert plan.credentials_of_pull(None) == NODE
    assert plan.credentials_of_pull(RegistryCredentials("u", "p")) == NODE
    secret = plan.credentials_of_pull(given("a"))
    assert secret == PullCredentials(
        kubernetes_secrets=(SecretRef("shop", "a", "uid-a", plan.credential_hash(given("a"))),)
    )
    account = plan.credentials_of_pull(given("a", kind=SERVICE_ACCOUNT))
    assert account == PullCredentials(kubernetes_service_accounts=(AccountRef("shop", "a", "uid-a"),))


def test_records_are_merged() -> None:
    one, two = recorded(given("a")), recorded(given("b"))
    both = plan.merged(two, one)
    assert [each.name for each in both.kubernetes_secrets] == ["a", "b"]
    assert plan.merged(both, one) == both
    assert plan.merged(both, NODE) == NODE
    assert plan.merged(NODE, one) == NODE
    rotated = plan.merged(both, recorded(given("a", "new")))
    assert [each.name for each in rotated.kubernetes_secrets] == ["a", "b"]
    assert rotated != both
    mixed = plan.merged(one, recorded(given("robot", kind=SERVICE_ACCOUNT)))
    assert (len(mixed.kubernetes_secrets), len(mixed.kubernetes_service_accounts)) == (1, 1)


def test_record_is_bounded_and_keeps_the_newest() -> None:
    found = recorded(*(given(f"s{number}") for number in range(plan.MOST_OWNERS)))
    found = plan.merged(found, recorded(given("newest")))
    assert len(found.kubernetes_secrets) == plan.MOST_OWNERS
    assert "newest" in {each.name for each in found.kubernetes_secrets}


def _largest(repository: str, secrets: int, accounts: int) -> PullCredentials:
    """RegistryCredentials of owners with the longest names."""
    name, uid = repository.rpartition("/")[2].rjust(253, "n"), "u" * 36
    return PullCredentials(
        kubernetes_secrets=tuple(SecretRef("n" * 63, f"{name[4:]}{i:04}", uid, "h" * 64) for i in range(secrets)),
        kubernetes_service_accounts=tuple(AccountRef("n" * 63, f"{name[4:]}{i:04}", uid) for i in range(accounts)),
    )


@pytest.mark.parametrize(
    ("count", "secrets", "accounts", "left"),
    [(200, 1, 0, plan.MOST_REPOSITORIES), (30, 100, 100, 10), (3, plan.MOST_OWNERS, plan.MOST_OWNERS, 1)],
)
def test_record_of_an_image_with_many_names_stays_readable(count: int, secrets: int, accounts: int, left: int) -> None:
    mapping: dict[str, PullCredentials] = {}
    for number in range(count):
        repository = f"r.example/{'x' * 240}{number}"
        mapping = plan.learned(mapping, repository, _largest(repository, secrets, accounts))
        assert repository in mapping
    assert len(mapping) == left
    record = PulledRecord(last_updated_time=datetime.now(UTC), image_ref="sha256:1", credential_mapping=mapping)
    data = plan.write_record(record)
    assert len(data) <= _MAX_FILE, "the agent reads no larger files"
    assert plan.read_record(data).credential_mapping == mapping


def test_names_of_an_image_that_are_used_again_are_kept_longest() -> None:
    mapping: dict[str, PullCredentials] = {}
    for number in range(plan.MOST_REPOSITORIES + 1):
        mapping = plan.learned(mapping, f"r.example/{number}", recorded(given("own")))
        mapping = plan.learned(mapping, "r.example/0", recorded(given("own")))
    assert len(mapping) == plan.MOST_REPOSITORIES
    assert "r.example/0" in mapping and "r.example/1" not in mapping


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (None, PullCheck.MUST_AUTHENTICATE),
        ({}, PullCheck.MUST_AUTHENTICATE),
        ({"docker.io/library/other": NODE}, PullCheck.MUST_AUTHENTICATE),
        ({REPOSITORY: NODE}, PullCheck.RECORD_FOUND),
        ({REPOSITORY: PullCredentials()}, PullCheck.MUST_AUTHENTICATE),
        ({REPOSITORY: recorded(given("a"))}, None),
        ({REPOSITORY: recorded(given("a", kind=SERVICE_ACCOUNT))}, None),
    ],
)
def test_result_without_credentials(mapping: dict[str, PullCredentials] | None, expected: PullCheck | None) -> None:
    record = None
    if mapping is not None:
        record = PulledRecord(last_updated_time=datetime.now(UTC), image_ref="i", credential_mapping=mapping)
    assert plan.known_without_credentials(record, REPOSITORY) is expected


ACCOUNT: Final = given("robot", kind=SERVICE_ACCOUNT)


@pytest.mark.parametrize(
    ("credentials", "expected", "learns"),
    [
        ([], PullCheck.MUST_AUTHENTICATE, False),
        ([RegistryCredentials("user", "pw")], PullCheck.MUST_AUTHENTICATE, False),
        ([given("a")], PullCheck.RECORD_FOUND, False),
        ([given("copy of a")], PullCheck.RECORD_FOUND, True),
        ([given("a", "rotated")], PullCheck.RECORD_FOUND, True),
        ([given("a", "other", uid="of a new one")], PullCheck.MUST_AUTHENTICATE, False),
        ([given("b", "other"), given("a")], PullCheck.RECORD_FOUND, False),
        ([ACCOUNT], PullCheck.RECORD_FOUND, False),
        ([given("other", "other", kind=SERVICE_ACCOUNT)], PullCheck.MUST_AUTHENTICATE, False),
        ([given("b", "other"), ACCOUNT], PullCheck.RECORD_FOUND, False),
    ],
)
def test_credentials_of_a_pod_are_compared_with_the_record(
    credentials: Iterable[RegistryCredentials], expected: PullCheck, learns: bool
) -> None:
    result, learned = plan.check(recorded(given("a"), ACCOUNT), credentials)
    assert (result, learned is not None) == (expected, learns)


def test_full_record_learns_nothing_and_takes_no_rotated_secret() -> None:
    full = recorded(*(given(f"s{number}", f"p{number}") for number in range(100)))
    assert plan.check(full, [given("copy", "p1")]) == (PullCheck.RECORD_FOUND, None)
    assert plan.check(full, [given("s1", "rotated")]) == (PullCheck.MUST_AUTHENTICATE, None)


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("app", "app"),
        ("app:1", "app"),
        ("team/app:latest", "team/app"),
        ("docker.io/library/app:1", "docker.io/library/app"),
        ("index.docker.io/library/app", "index.docker.io/library/app"),
        ("localhost:5000/app", "localhost:5000/app"),
        (f"localhost:5000/app@sha256:{'a' * 64}", "localhost:5000/app"),
        (f"r.io/app:2@sha256:{'a' * 64}", "r.io/app"),
    ],
)
def test_records_name_the_repository_as_the_pod_does(image: str, repository: str) -> None:
    """The Go kubelet cuts tag and digest from the pod's text (trimImageTagDigest); it does not expand short names."""
    assert plan.repository_of(image) == repository


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("app:1", True),
        ("docker.io/library/app:1", True),
        ("app", False),
        ("other:1", False),
        (f"app@sha256:{'a' * 64}", True),
        (f"app:2@sha256:{'a' * 64}", True),
        ("Not A Name", False),
    ],
)
def test_image_of_a_pod_is_found_among_the_runtimes_names(image: str, expected: bool) -> None:
    names = ["docker.io/library/app:1", f"docker.io/library/app@sha256:{'a' * 64}"]
    assert plan.same_image(image, names) is expected
