"""Authentication at registries: challenges, and which host may receive which credentials. Pure.

Sources: RFC 9110 section 11 (challenges); the distribution project's token authentication specification.
"""

import re
from collections.abc import Iterable
from itertools import islice
from urllib.parse import urlencode, urlsplit

from msgspec import Struct, field

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.http import basic_auth
from pykubelet.base.text import encodable
from pykubelet.criserver.images.image_types import AuthConfig
from pykubelet.criserver.images.registry.config import Endpoint, HostConfig, same_registry, shown_url

_PARAMETER = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
_SCHEME = re.compile(r"\s*([A-Za-z0-9_-]+)(?=\s|,|$)(?!\s*=)\s*,?")
_MAX_CHALLENGE = 8192
_MAX_HEADERS = 8
_SCOPE = re.compile(r"repository(?:\([a-z0-9]+\))?:([A-Za-z0-9._/-]{1,255}):(?:[a-z]+,)*(?:pull|\*)(?:,[a-z]+)*")
_MAX_SCOPES = 4


class Challenge(Struct, frozen=True):
    """An authentication challenge: its scheme, such as ``bearer`` or ``basic``, with its parameters."""

    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)


class HostCredentials(Struct, frozen=True):
    """The credentials for one host."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return "Credentials(…)"

    @property
    def basic(self) -> str:
        """The value of an Authorization header; empty without a user name."""
        if not self.username:
            return ""
        return "Basic " + basic_auth.encode(self.username, self.password)


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Parse the challenges of WWW-Authenticate headers, in order; malformed parts are left out.

    So are headers with bytes that are not UTF-8, which the HTTP library makes surrogates of.
    """
    found: list[Challenge] = []
    for header in filter(encodable, islice(headers, _MAX_HEADERS)):
        rest = header[:_MAX_CHALLENGE]
        while rest.strip(" ,\t"):
            scheme = _SCHEME.match(rest)
            parameter = _PARAMETER.match(rest)
            if parameter and found:
                quoted = re.sub(r"\\(.)", r"\1", parameter[2] or "")
                found[-1].parameters[parameter[1].lower()] = quoted or parameter[3] or ""
                rest = rest[parameter.end() :]
            elif scheme:
                found.append(Challenge(scheme[1].lower()))
                rest = rest[scheme.end() :]
            else:
                break
    return found


def credentials_for(
    auth: AuthConfig | None, endpoint: Endpoint, registry: str, host: HostConfig | None
) -> HostCredentials:
    """The credentials that a server may receive: those of the pull if they are for it, else those of its host.

    Credentials of a pull are bound to the host that they name, or if they name none to the registry of the image.
    Raises Invalid if their base64 text is damaged.
    """
    if auth is not None and same_registry(endpoint.host, auth.server_address or registry):
        found = _given(auth)
        if found != HostCredentials():
            return found
    return HostCredentials(host.username, host.password) if host else HostCredentials()


def _given(auth: AuthConfig) -> HostCredentials:
    username, password = auth.username, auth.password
    if not username and auth.auth:
        try:
            username, password = basic_auth.decode(auth.auth)
        except Invalid as error:
            raise Invalid("the pull's credentials: 'auth' must be base64 of user:password") from error
    return HostCredentials(username, password.rstrip("\0"), auth.identity_token, auth.registry_token)


class TokenRequest(Struct, frozen=True):
    """A request to a token service."""

    method: str
    url: str
    form: dict[str, str] = field(default_factory=dict)
    authorization: str = ""


def token_requests(
    challenge: Challenge, credentials: HostCredentials, endpoint: Endpoint, path: str
) -> tuple[TokenRequest, ...]:
    """The requests for a token to pull from ``path``: the preferred one first, then one for older token services.

    The scope is that of ``path`` and those repositories of the challenge's scope: registries that serve a repository
    under another path (Artifactory, Harbor's proxies) name their own. Only the action ``pull`` is asked for.

    Credentials are sent to the registry's own host, and to the token service that the registry names, if both prove
    their identity by TLS: a registry that is trusted with credentials decides whom it trusts, as for Docker and
    containerd. Names alone prove nothing (``a.co.uk`` and ``b.co.uk`` are unrelated). Other hosts get an anonymous
    request. The caller has ensured that the challenge came from the registry itself (CVE-2020-15157). Raises Permanent
    if the realm is not an acceptable URL.
    """
    realm = challenge.parameters.get("realm", "")
    named = shown_url(realm)
    try:
        parts = urlsplit(realm)
        _ = parts.port  # ValueError: it is no port
    except ValueError:
        parts = urlsplit("")
    sound = parts.hostname and not parts.username and not parts.fragment and encodable(realm)
    if parts.scheme not in ("https", "http") or not sound:
        raise Permanent(f"registry {endpoint.host} names a token service {named}, which is not a valid URL")
    if parts.scheme == "http" and not endpoint.plain:
        raise Permanent(f"registry {endpoint.host} names a token service without TLS ({named}); it is not used")
    scopes = _scopes(challenge, path)
    service = challenge.parameters.get("service", "")
    trusted = parts.hostname == urlsplit(endpoint.base).hostname or (endpoint.proven and parts.scheme == "https")
    query = [("scope", scope) for scope in scopes] + ([("service", service)] if service else [])
    joint = "" if realm.endswith(("?", "&")) else "&" if parts.query else "?"
    url = realm + joint + urlencode(query)
    if not trusted or not credentials.identity_token:
        return (TokenRequest("GET", url, authorization=credentials.basic if trusted else ""),)
    form = {
        "grant_type": "refresh_token",
        "refresh_token": credentials.identity_token,
        "client_id": "pykubelet",
        "scope": " ".join(scopes),
    }
    by_name = "Basic " + basic_auth.encode(credentials.username, credentials.identity_token)
    return (
        TokenRequest("POST", realm, form | ({"service": service} if service else {})),
        TokenRequest("GET", url, authorization=by_name),
    )


def _scopes(challenge: Challenge, path: str) -> list[str]:
    found = [f"repository:{path}:pull"]
    for part in challenge.parameters.get("scope", "").split()[:_MAX_SCOPES]:
        if (named := _SCOPE.fullmatch(part)) and (scope := f"repository:{named[1]}:pull") not in found:
            found.append(scope)
    return found
