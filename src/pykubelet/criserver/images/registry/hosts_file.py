"""The hosts.toml of a registry in containerd's format: which servers are asked for its images, and how. Pure."""

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.criserver.images.registry.config import Endpoint, Tls, default_endpoint, real_name, same_registry

FILE = "hosts.toml"
_API = "/v2"
_CAPABILITIES = frozenset(("pull", "resolve", "push", "referrers"))
_CONNECT: Seconds = 30.0
_AUTHORIZATION = "authorization"
_FORBIDDEN = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host"),
        *("range", "te", "transfer-encoding", "upgrade"),
    )
)
"""Headers that this client sets itself, in lower case."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""The name of a header (RFC 9110, section 5.6.2)."""


def parse_hosts(document: Mapping[str, object], host: str, directory: str) -> tuple[Endpoint, ...]:
    """The servers that hosts.toml names for a registry, in their order; the root's ``server`` is the last.

    ``directory`` is that of the file, to which paths in it may be relative. Fields of later versions are ignored, as
    containerd does. Raises Invalid, which names the file and the field.
    """
    what = f"{directory}/{FILE}"
    named = document.get("host", {})
    if not isinstance(named, dict):
        raise Invalid(f"{what}: host must be a table of servers")
    found = []
    for name, fields in named.items():
        place = f"{what}: host.{_shown(name)!r}"
        if not isinstance(fields, dict):
            raise Invalid(f"{place} must be a table")
        found.append(_endpoint(str(name), fields, host, directory, place))
    server = document.get("server", "")
    if not isinstance(server, str):
        raise Invalid(f"{what}: server must be a URL")
    return (*found, _endpoint(server, document, host, directory, what))


def parse_certificates(names: list[str], host: str, directory: str) -> Endpoint:
    """The registry itself, with the certificates in a directory without hosts.toml, as Docker names them.

    ``*.crt`` are authorities, ``NAME.cert`` is the client's certificate and ``NAME.key`` its key.
    """
    authorities = tuple(f"{directory}/{name}" for name in sorted(names) if name.endswith(".crt"))
    client = next((name for name in sorted(names) if name.endswith(".cert")), "")
    key = client.removesuffix(".cert") + ".key"
    tls = Tls(
        further_ca=authorities,
        client_certificate=f"{directory}/{client}" if client else "",
        client_key=f"{directory}/{key}" if client and key in names else "",
    )
    return default_endpoint(host, plain=None if tls == Tls() else False, tls=tls)


def _endpoint(url: str, fields: Mapping[str, object], host: str, directory: str, what: str) -> Endpoint:
    tls = _tls(fields, directory, what)
    base, api = _base(url, fields.get("override_path") is True, what) if url else ("", _API)
    if not base:
        base = default_endpoint(host, plain=None if tls == Tls() else False, tls=tls).base
    name = urlsplit(base).netloc
    able = _capabilities(fields, what)
    if not url:
        able = _CAPABILITIES  # the root's fields are those of its server, which is not named
    headers = _headers(fields, what)
    return Endpoint(
        base,
        host if same_registry(name, host) else name,
        "" if same_registry(name, host) else host,
        api=api,
        tls=tls,
        authorization=next((value for name, value in headers if name.lower() == _AUTHORIZATION), ""),
        headers=tuple((name, value) for name, value in headers if name.lower() != _AUTHORIZATION),
        connect=_connect(fields, what),
        resolves="resolve" in able,
        pulls="pull" in able,
        # Files for earlier versions of containerd cannot name it.
        refers=not able.isdisjoint(("pull", "referrers")),
    )


def _base(url: str, override_path: bool, what: str) -> tuple[str, str]:
    """The URL of a server without the path of the API, and that path, which the URL may contain already."""
    if "://" not in url:
        url = f"https://{url}"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid(f"{what}: {_shown(url)!r} must be http(s)://host[:port][/path]")
    path = posixpath.normpath(parts.path).strip("/") if parts.path.strip("/") else ""
    base = f"{parts.scheme}://{real_name(parts.netloc)}" + (f"/{path}" if path else "")
    return base, "" if override_path or f"/{path}".endswith(_API) else _API


def _shown(url: str) -> str:
    """The URL of a server without what may be its user and password, which it must not have."""
    return url.rpartition("@")[2]


def _capabilities(fields: Mapping[str, object], what: str) -> frozenset[str]:
    named = frozenset(name.lower() for name in _texts(fields.get("capabilities", []), f"{what}: capabilities"))
    if not named <= _CAPABILITIES:
        raise Invalid(f"{what}: capabilities must be among {', '.join(sorted(_CAPABILITIES))}")
    return named or _CAPABILITIES


def _tls(fields: Mapping[str, object], directory: str, what: str) -> Tls:
    authorities = _texts(fields.get("ca", []), f"{what}: ca")
    clients = fields.get("client", [])
    if isinstance(clients, list) and len(clients) > 1:
        raise Invalid(f"{what}: client: only one client certificate can be used for a server")
    client = clients[0] if isinstance(clients, list) and clients else clients
    pair = _texts(client, f"{what}: client") if client else ()
    if len(pair) > 2 or (isinstance(client, list) and len(pair) != 2 and pair):
        raise Invalid(f"{what}: client must be a file, or a pair of a certificate and a key")
    certificate, key = (*pair, "", "")[:2]
    return Tls(
        further_ca=tuple(_path(each, directory) for each in authorities),
        client_certificate=_path(certificate, directory),
        client_key=_path(key, directory),
        skip_verify=fields.get("skip_verify") is True,
    )


def _headers(fields: Mapping[str, object], what: str) -> tuple[tuple[str, str], ...]:
    given = fields.get("header", {})
    if not isinstance(given, dict):
        raise Invalid(f"{what}: header must be a table")
    found = []
    for name, value in given.items():
        text = ", ".join(_texts(value, f"{what}: header {name!r}"))
        if not _TOKEN.fullmatch(name) or not text.isprintable():
            raise Invalid(f"{what}: header {name!r} is not a valid header")
        if name.lower() in _FORBIDDEN:
            raise Invalid(f"{what}: header {name!r} is set by the client itself")
        found.append((name, text))
    return tuple(found)


def _connect(fields: Mapping[str, object], what: str) -> Seconds:
    given = fields.get("dial_timeout", "")
    if not isinstance(given, str):
        raise Invalid(f"{what}: dial_timeout must be a text, as 5s")
    try:
        seconds = parse_duration(given or "0")
    except Invalid as error:
        raise Invalid(f"{what}: dial_timeout: {error}") from error
    if seconds < 0:
        raise Invalid(f"{what}: dial_timeout must not be negative")
    return seconds or _CONNECT


def _texts(value: object, what: str) -> tuple[str, ...]:
    """A text, or a list of texts."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise Invalid(f"{what} must be a text or a list of texts")
    return tuple(values)


def _path(path: str, directory: str) -> str:
    return posixpath.join(directory, path) if path else ""
