"""Reads kubeconfig files: the API server's address and CA, and the client's credentials.

Format: kubernetes.io/docs/reference/config-api/kubeconfig.v1. Only ``current-context`` is used. A kubeconfig is read
once at start; the files it names are reloaded when they change (``credentials.py``).
"""

import base64
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.documents import read_yaml


class Pem(Struct, frozen=True):
    """PEM text, given inline or as a file whose content may change."""

    data: bytes = b""
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.file)

    def read(self) -> bytes:
        """Return the present text. Blocks; raises Invalid naming a file that cannot be read."""
        if self.data:
            return self.data
        try:
            return Path(self.file).read_bytes()
        except OSError as error:
            raise Invalid(f"{self.file}: cannot be read: {error.strerror}") from error


class ExecPlugin(Struct, frozen=True):
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    install_hint: str = ""


class User(Struct, frozen=True):
    """The client's credentials; at most one kind of bearer credential is used, files first."""

    token: str = ""
    token_file: str = ""
    certificate: Pem = field(default_factory=Pem)
    key: Pem = field(default_factory=Pem)
    username: str = ""
    password: str = ""
    exec: ExecPlugin | None = None

    @property
    def has_only_certificate(self) -> bool:
        """Whether a client certificate is the only credential that there can be."""
        return not (self.token or self.token_file or self.username or self.exec)


class ClusterConfig(Struct, frozen=True):
    """One API server and the credentials for it."""

    server: str
    ca: Pem = field(default_factory=Pem)
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    user: User = field(default_factory=User)


class _Struct(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, kw_only=True):
    pass


class _Cluster(_Struct, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _ExecEnv(_Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[_ExecEnv, ...] | None = None
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    install_hint: str = ""


class _User(_Struct, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: _Exec | None = None


class _Context(_Struct, frozen=True):
    cluster: str
    user: str = ""


class _NamedCluster(_Struct, frozen=True):
    name: str
    cluster: _Cluster


class _NamedUser(_Struct, frozen=True):
    name: str
    user: _User = _User()


class _NamedContext(_Struct, frozen=True):
    name: str
    context: _Context


class _Config(_Struct, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


def load_kubeconfig(path: Path) -> ClusterConfig:
    """Return the current context of a kubeconfig; its relative paths are relative to the file. Raises Invalid."""
    try:
        document = read_yaml(path.read_bytes())
    except OSError as error:
        raise Invalid(f"{path}: the kubeconfig cannot be read: {error.strerror}") from error
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error
    try:
        config = convert(document, _Config)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path}: not a kubeconfig: {error}") from error
    return _resolve(config, path)


def _resolve(config: _Config, path: Path) -> ClusterConfig:
    context = next((c.context for c in config.contexts or () if c.name == config.current_context), None)
    if context is None:
        raise Invalid(f"{path}: current-context {config.current_context!r} is not among its contexts")
    cluster = next((c.cluster for c in config.clusters or () if c.name == context.cluster), None)
    if cluster is None:
        raise Invalid(
            f"{path}: context {config.current_context!r} names the cluster {context.cluster!r}, which does not exist"
        )
    server, username, password = _server(cluster.server, f"{path}: cluster {context.cluster!r}")
    user = next((u.user for u in config.users or () if u.name == context.user), None)
    if user is None and context.user:
        raise Invalid(
            f"{path}: context {config.current_context!r} names the user {context.user!r}, which does not exist"
        )
    user = user or _User()
    if username and not user.username:
        user = replace(user, username=username, password=password)
    return ClusterConfig(
        server=server,
        ca=_pem(cluster.certificate_authority_data, cluster.certificate_authority, path),
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        user=_user(user, path),
    )


def _server(url: str, what: str) -> tuple[str, str, str]:
    """The URL of a server, and the user and password that it may have: errors and metrics show the rest."""
    scheme, mark, rest = url.partition("://")
    shown = url.rpartition("@")[2]
    if not mark or scheme not in ("http", "https"):
        raise Invalid(f"{what}: server {shown!r} must begin with https://")
    if "@" in rest:
        shown = f"{scheme}://…@{shown}"
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise Invalid(f"{what}: server {shown!r} is not a valid URL")
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    return place, unquote(parts.username or ""), unquote(parts.password or "")


def _user(user: _User, path: Path) -> User:
    plugin = None
    if user.exec is not None:
        given = user.exec
        command = given.command
        if "/" in command:
            command = _absolute(command, path)
        plugin = ExecPlugin(
            command,
            given.args or (),
            tuple((e.name, e.value) for e in given.env or ()),
            given.api_version,
            given.provide_cluster_info,
            given.install_hint,
        )
    return User(
        token=user.token,
        token_file=_absolute(user.token_file, path),
        certificate=_pem(user.client_certificate_data, user.client_certificate, path),
        key=_pem(user.client_key_data, user.client_key, path),
        username=user.username,
        password=user.password,
        exec=plugin,
    )


def _pem(data: str, file: str, path: Path) -> Pem:
    if not data:
        return Pem(file=_absolute(file, path))
    try:
        return Pem(base64.b64decode(data, validate=True))
    except ValueError as error:
        raise Invalid(f"{path}: a certificate or key given as data is not base64: {error}") from error


def _absolute(file: str, path: Path) -> str:
    return str(path.parent.absolute() / file) if file else ""
