"""Records of pulled images: their files, what a pull adds, and whether a pod may use a present image. Pure.

A record names the credentials with which an image was pulled, so that a pod without them cannot use an image that
another pod has pulled. Files and rules are those of the Go kubelet (KEP-2535, ``pkg/kubelet/images/pullmanager``).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.documents import read_json
from pykubelet.base.image_reference import parse, without_tag
from pykubelet.kubelet.actuate.images.plan.keyring import SECRET, RegistryCredentials

_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
_VERSIONS: Final = (_VERSION, "kubelet.config.k8s.io/v1alpha1")
_INTENT: Final = "ImagePullIntent"
_RECORD: Final = "ImagePulledRecord"
_PREFIX: Final = "sha256-"
_T = TypeVar("_T", bound=msgspec.Struct)
_MOST_LEARNED: Final = 100
"""Secrets of a record up to which a mere check adds another one."""
MOST_OWNERS: Final = 1000
"""Secrets, and service accounts, of a record; beyond them old ones are dropped and verified again."""

MOST_REPOSITORIES: Final = 64
"""Repositories of a record; an image has no more names in the runtime server."""


class SecretRef(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True, rename="camel"):
    """A Secret whose credentials have pulled an image."""

    namespace: str
    name: str
    uid: str
    credential_hash: str


class AccountRef(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """A service account for which a plugin gave the credentials of a pull."""

    namespace: str
    name: str
    uid: str


class PullCredentials(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, rename="camel"
):
    """The credentials that have pulled an image of one repository."""

    kubernetes_secrets: tuple[SecretRef, ...] = ()
    kubernetes_service_accounts: tuple[AccountRef, ...] = ()
    node_pods_accessible: bool = False
    """No credentials, or credentials of the node: all pods may use the image."""


class PulledRecord(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, rename="camel"
):
    """Record of an image that a kubelet has pulled."""

    last_updated_time: Annotated[datetime, msgspec.Meta(tz=True)]
    image_ref: str
    """The runtime's id of the image."""
    credential_mapping: dict[str, PullCredentials] = {}
    """By repository. An image without an entry for a repository was pulled, no one knows how: it is verified again."""


class Policy(Enum):
    """``imagePullCredentialsVerificationPolicy``: which present images are verified."""

    NEVER = "NeverVerify"
    PULLED = "NeverVerifyPreloadedImages"
    NOT_ALLOWED = "NeverVerifyAllowlistedImages"
    ALWAYS = "AlwaysVerify"


class PullCheck(Enum):
    """Result of a check, as a label of the metric."""

    POLICY_ALLOWED = "credentialPolicyAllowed"
    RECORD_FOUND = "credentialRecordFound"
    MUST_AUTHENTICATE = "mustAuthenticate"
    ERROR = "error"


class Verification(Struct, frozen=True):
    """The policy, and the repositories that it leaves out."""

    policy: Policy
    allowlist: tuple[str, ...] = ()

    def requires(self, repository: str, pulled: bool) -> bool:
        """Whether a pod has to show credentials for a present image; ``pulled``: a kubelet has pulled it."""
        match self.policy:
            case Policy.NEVER:
                return False
            case Policy.PULLED:
                return pulled
            case Policy.ALWAYS:
                return True
            case Policy.NOT_ALLOWED:
                return not any(_allows(each, repository) for each in self.allowlist)


def file_name(name: str) -> str:
    """The name of the file for an image: of an intent by the pod's text, of a record by the runtime's id."""
    return _PREFIX + hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()


def write_intent(image: str) -> bytes:
    """Return the file of an intent to pull an image."""
    return _written({"kind": _INTENT, "apiVersion": _VERSION, "image": image})


def read_intent(data: bytes) -> str:
    """Return the image of an intent. Raises Invalid or a msgspec error for a damaged file."""
    return _read(data, _INTENT, _Intent).image


def write_record(record: PulledRecord) -> bytes:
    """Return the file of a record."""
    mapping = {name: msgspec.to_builtins(each) for name, each in sorted(record.credential_mapping.items())}
    when = record.last_updated_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {"kind": _RECORD, "apiVersion": _VERSION, "lastUpdatedTime": when, "imageRef": record.image_ref}
    return _written(document | ({"credentialMapping": mapping} if mapping else {}))


def read_record(data: bytes) -> PulledRecord:
    """Return a record. Raises Invalid or a msgspec error for a damaged file."""
    return _read(data, _RECORD, PulledRecord)


def credentials_of_pull(used: RegistryCredentials | None) -> PullCredentials:
    """The credentials to record of a pull with these credentials; None: without any."""
    owner = used.owner if used is not None else None
    if used is None or owner is None:
        return PullCredentials(node_pods_accessible=True)
    if owner.kind == SECRET:
        return PullCredentials(kubernetes_secrets=(_secret(used),))
    account = AccountRef(owner.namespace, owner.name, owner.uid)
    return PullCredentials(kubernetes_service_accounts=(account,))


def merged(before: PullCredentials | None, new: PullCredentials) -> PullCredentials:
    """Add the credentials of a pull, or of a check, to those of a record."""
    if before is None or new.node_pods_accessible:
        return new
    if before.node_pods_accessible:
        return before
    secrets = {_place(each): each for each in new.kubernetes_secrets}
    secrets |= {_place(each): each for each in before.kubernetes_secrets if _place(each) not in secrets}
    accounts = dict.fromkeys((*new.kubernetes_service_accounts, *before.kubernetes_service_accounts))
    return PullCredentials(
        kubernetes_secrets=tuple(sorted(islice(secrets.values(), MOST_OWNERS))),
        kubernetes_service_accounts=tuple(sorted(islice(accounts, MOST_OWNERS))),
    )


def learned(before: Mapping[str, PullCredentials], repository: str, new: PullCredentials) -> dict[str, PullCredentials]:
    """Add credentials for a repository to those of a record.

    Anyone can give an image more names: old repositories go when the record would become too large to be read again.
    They are verified again.
    """
    mapping = {name: each for name, each in before.items() if name != repository}
    mapping[repository] = merged(before.get(repository), new)
    owners = sum(map(_owners, mapping.values()))
    for oldest in list(mapping)[:-1]:
        if len(mapping) <= MOST_REPOSITORIES and owners <= 2 * MOST_OWNERS:
            break
        owners -= _owners(mapping.pop(oldest))
    return mapping


def _owners(each: PullCredentials) -> int:
    return len(each.kubernetes_secrets) + len(each.kubernetes_service_accounts)


def known_without_credentials(record: PulledRecord | None, repository: str) -> PullCheck | None:
    """The result of a check, if it does not depend on the pod's credentials; else None."""
    found = record.credential_mapping.get(repository) if record is not None else None
    if found is None:
        return PullCheck.MUST_AUTHENTICATE
    if found.node_pods_accessible:
        return PullCheck.RECORD_FOUND
    return None if found.kubernetes_secrets or found.kubernetes_service_accounts else PullCheck.MUST_AUTHENTICATE


def check(found: PullCredentials, given: Iterable[RegistryCredentials]) -> tuple[PullCheck, PullCredentials | None]:
    """Check a pod's credentials against those of a record; return the result, and what the record has to learn.

    A Secret counts if its content or its identity (namespace, name and uid) is recorded: a rotated one stays valid.
    The first service account counts.
    """
    owned = [each for each in given if each.owner is not None]
    room = len(found.kubernetes_secrets) < _MOST_LEARNED
    for mine in (_secret(each) for each in owned if each.owner is not None and each.owner.kind == SECRET):
        for known in found.kubernetes_secrets:
            if mine == known:
                return PullCheck.RECORD_FOUND, None
            if mine.credential_hash == known.credential_hash:
                return PullCheck.RECORD_FOUND, PullCredentials(kubernetes_secrets=(mine,)) if room else None
            if room and _place(mine) == _place(known):
                return PullCheck.RECORD_FOUND, PullCredentials(kubernetes_secrets=(mine,))
    accounts = [each.owner for each in owned if each.owner is not None and each.owner.kind != SECRET]
    if accounts:
        first = AccountRef(accounts[0].namespace, accounts[0].name, accounts[0].uid)
        if first in found.kubernetes_service_accounts:
            return PullCheck.RECORD_FOUND, None
    return PullCheck.MUST_AUTHENTICATE, None


def repository_of(image: str) -> str:
    """The repository in a record: what the pod writes, without tag and digest, as in the Go kubelet. Raises Invalid.

    A short name stays short, so it is another repository than its full form: where it leads to is the runtime's choice.
    """
    return without_tag(image)


def same_image(image: str, names: Iterable[str]) -> bool:
    """Whether one of the runtime's names (tags and digests) of an image is what a pod calls ``image``."""
    try:
        wanted = str(parse(image))
    except Invalid:
        return False
    return wanted in names or image in names


def credential_hash(credentials: RegistryCredentials) -> str:
    """The SHA-256 in records: of the JSON text that Go writes of Docker's AuthConfig."""
    fields = (("username", credentials.username), ("password", credentials.password), ("email", credentials.email))
    text = json.dumps({key: value for key, value in fields if value}, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _allows(pattern: str, repository: str) -> bool:
    return repository.startswith(pattern[:-1]) if pattern.endswith("/*") else repository == pattern


class _Intent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    image: str


def _place(secret: SecretRef) -> tuple[str, str, str]:
    return secret.namespace, secret.name, secret.uid


def _secret(credentials: RegistryCredentials) -> SecretRef:
    owner = credentials.owner
    assert owner is not None
    return SecretRef(owner.namespace, owner.name, owner.uid, credential_hash(credentials))


def _written(document: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(document) + b"\n"


def _read(data: bytes, kind: str, struct: type[_T]) -> _T:
    document = read_json(data)
    if not isinstance(document, dict) or document.pop("kind", "") != kind:
        raise Invalid(f"no {kind}")
    if (version := document.pop("apiVersion", "")) not in _VERSIONS:
        raise Invalid(f"apiVersion {version!r} is unknown")
    return convert(document, struct)
