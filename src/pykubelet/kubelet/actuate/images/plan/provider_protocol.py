"""The protocol of credential provider plugins, and the keys of their cached answers. Pure.

Source: KEP-2133, KEP-4412 (service accounts), and ``pkg/credentialprovider/plugin`` of the Go kubelet.
"""

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.kubelet.actuate.images.plan.keyring import SERVICE_ACCOUNT, Owner, RegistryCredentials, location_matches

_REQUEST: Final = "CredentialProviderRequest"
_RESPONSE: Final = "CredentialProviderResponse"
TOKEN_CACHE: Final = "Token"


class _Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    username: str | None = None
    password: str | None = None


class _Response(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    kind: str = ""
    api_version: str = ""
    cache_key_type: str = ""
    cache_duration: str | None = None
    auth: dict[str, _Auth | None] | None = None


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """Answer of a plugin."""

    cache_key_type: str
    """``Image``, ``Registry`` or ``Global``."""
    cache_for: Seconds
    """0: not cached."""
    auth: Mapping[str, RegistryCredentials] = field(repr=False)
    """By registry location."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The service account for which a plugin is asked."""

    owner: Owner
    annotations: tuple[tuple[str, str], ...]
    """Those that the plugin wants, in order."""
    token: str = field(repr=False)

    def cache_key(self, cache_type: str) -> Hashable:
        """The owner of the cached credentials: the account, or with the cache type ``Token`` this token."""
        mine = hashlib.sha256(self.token.encode()).hexdigest() if cache_type == TOKEN_CACHE else ""
        return (self.owner, self.annotations, mine)


def any_matches(match_images: tuple[str, ...], repository: str) -> bool:
    """Whether a plugin is to be asked for a repository, by its ``matchImages``."""
    return any(location_matches(pattern, repository) for pattern in match_images)


def identity(
    owner: Owner, annotations: Mapping[str, str], *, required: tuple[str, ...], optional: tuple[str, ...], token: str
) -> Identity:
    """Return the identity with the annotations that a plugin wants."""
    wanted = sorted({*required, *optional})
    return Identity(owner, tuple((key, annotations[key]) for key in wanted if key in annotations), token)


def account_owner(namespace: str, name: str, uid: str) -> Owner:
    """Return a service account as the owner of credentials."""
    return Owner(SERVICE_ACCOUNT, namespace, name, uid)


def request(api_version: str, repository: str, account: Identity | None) -> bytes:
    """Return the request that a plugin reads on its standard input."""
    document: dict[str, object] = {"kind": _REQUEST, "apiVersion": api_version, "image": repository}
    if account is not None:
        document["serviceAccountToken"] = account.token
        if account.annotations:
            document["serviceAccountAnnotations"] = dict(account.annotations)
    return msgspec.json.encode(document) + b"\n"


def read_answer(output: bytes, api_version: str, default_cache: Seconds) -> ProviderAnswer:
    """Read the response that a plugin has printed. Raises Invalid, whose message has nothing of the output: it may hold
    credentials."""
    try:
        found = decode_json(output, _Response)
    except (ValueError, RecursionError):
        raise Invalid(f"error decoding credential provider plugin response from stdout: no {_RESPONSE}") from None
    if found.kind != _RESPONSE or found.api_version != api_version:
        raise Invalid(f"the response is no {api_version} {_RESPONSE}: kind or apiVersion did not match")
    if found.cache_key_type not in ("Image", "Registry", "Global"):
        raise Invalid("the response has no valid cacheKeyType; it must be Image, Registry or Global")
    try:
        cache_for = default_cache if found.cache_duration is None else parse_duration(found.cache_duration)
    except Invalid:
        raise Invalid("the response's cacheDuration is not a duration; it must be such as 10m or 0s") from None
    auth = {key: _credentials(each) for key, each in (found.auth or {}).items()}
    return ProviderAnswer(found.cache_key_type, max(0.0, cache_for), auth)


def _credentials(auth: _Auth | None) -> RegistryCredentials:
    """Return the credentials; null means empty ones, as in Go."""
    return (
        RegistryCredentials("", "") if auth is None else RegistryCredentials(auth.username or "", auth.password or "")
    )


def echoes_token(answer: ProviderAnswer, account: Identity | None, cache_type: str) -> bool:
    """Whether a plugin returns the account's token as a password, which only the cache type ``Token`` allows."""
    if account is None or cache_type == TOKEN_CACHE:
        return False
    return any(each.password == account.token for each in answer.auth.values())


def cache_keys(repository: str, whose: Hashable) -> tuple[Hashable, ...]:
    """The keys that a cached answer for a repository may have, first choice first."""
    return tuple(cache_key(kind, repository, whose) for kind in ("Image", "Registry", "Global"))


def cache_key(cache_key_type: str, repository: str, whose: Hashable) -> Hashable:
    """The key of an answer: for the repository, its registry, or all images; ``whose`` is None without an account."""
    name = {"Image": repository, "Registry": repository.partition("/")[0]}.get(cache_key_type, "")
    return (cache_key_type, name, whose)
