"""The client's credentials: bearer tokens and client certificates, reloaded when their files change.

The client uses them before each request; checking the files costs a few stat calls every ten seconds.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.apiclient.exec_plugin import ExecCredentials, run_plugin
from pykubelet.apiclient.kubeconfig import ClusterConfig, Pem, User
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.http import basic_auth
from pykubelet.base.units import Seconds

LOOK_AGAIN: Final = 10.0
"""Seconds between two checks of certificate and token files."""
PLUGIN_PAUSE: Final[Seconds] = 5.0
"""Time after a failure of a plugin in which it is not run again."""
_EARLY: Final = 30.0
"""Seconds before expiry at which a plugin is called again."""


class RotatedCertificate(Struct, frozen=True):
    """A client certificate that the agent renews itself; it is used instead of the kubeconfig's once it exists."""

    file: Path
    """The certificate and its key."""
    usable: Callable[[], bool]
    """Returns whether the file holds a valid certificate. Blocks briefly."""


class _LoadedCredentials(Struct, frozen=True):
    """Credentials as read, and the fingerprints (inode, size, time) of their files."""

    marks: tuple[tuple[int, int, int], ...]
    context: ssl.SSLContext | None
    token: str


class Credentials:
    """The credentials of one API client. Not thread-safe."""

    def __init__(self, config: ClusterConfig, clock: Clock, *, rotated: RotatedCertificate | None = None) -> None:
        self._config = config
        self._rotated = rotated
        self._clock = clock
        self._read: _LoadedCredentials | None = None
        self._looked_at: Seconds = 0.0
        self._plugin: ExecCredentials | None = None
        self._failed: tuple[PykubeletError, Seconds] | None = None
        """The last error of the plugin, and until when it stands: requests that wait do not each run it again."""
        self._lock = asyncio.Lock()

    async def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections; None for plain HTTP. Raises Invalid or Transient if unusable."""
        return (await self._current()).context

    async def headers(self) -> dict[str, str]:
        """Return the Authorization header, if there is one."""
        read = await self._current()
        user = self._config.user
        if read.token:
            return {"Authorization": f"Bearer {read.token}"}
        if user.username:
            return {"Authorization": f"Basic {basic_auth.encode(user.username, user.password)}"}
        return {}

    def renew(self) -> None:
        """Reload files and call the plugin again at the next request: the API server has rejected the credentials."""
        self._read = None
        self._plugin = None

    async def _current(self) -> _LoadedCredentials:
        async with self._lock:
            await self._ask_plugin()
            now = self._clock.monotonic()
            if self._read is None or now - self._looked_at >= LOOK_AGAIN:
                self._read = await blocking.call("credentials", self._refreshed, self._read)
                self._looked_at = now
            return self._read

    async def _ask_plugin(self) -> None:
        plugin = self._config.user.exec
        if plugin is None:
            return
        known = self._plugin
        if known is not None and (known.expires is None or known.expires - _EARLY > self._clock.now()):
            return
        if self._failed is not None and self._clock.monotonic() < self._failed[1]:
            raise self._failed[0]
        try:
            self._plugin = await run_plugin(plugin, self._config)
        except PykubeletError as error:
            self._failed = error, self._clock.monotonic() + PLUGIN_PAUSE
            raise
        self._failed = self._read = None

    def _refreshed(self, before: _LoadedCredentials | None) -> _LoadedCredentials:
        """Read the credentials again if a file has changed. Blocks; raises Invalid or Transient."""
        config, rotated = self._config, self._rotated
        user = _effective(config.user, self._plugin)
        own = str(rotated.file) if rotated is not None else ""
        files = (config.ca.file, user.certificate.file, user.key.file, user.token_file, own)
        marks = tuple(_mark(file) for file in files)
        if before is not None and before.marks == marks:
            return before
        if rotated is not None and rotated.usable():
            user = replace(user, certificate=Pem(file=own), key=Pem(file=own))
        try:
            return _LoadedCredentials(marks, _context(config, user), _token(user))
        except (OSError, ValueError, Invalid) as error:
            if before is not None:
                return before  # a half-written file: the next check finds it complete
            raise Invalid(f"the credentials for {config.server} cannot be used: {error}") from error


def _effective(user: User, plugin: ExecCredentials | None) -> User:
    if plugin is None:
        return user
    return User(plugin.token, certificate=Pem(plugin.certificate), key=Pem(plugin.key))


def _mark(file: str) -> tuple[int, int, int]:
    try:
        stat = Path(file).stat() if file else None
    except (OSError, ValueError):  # ValueError: the path contains a null character
        stat = None
    return (stat.st_mtime_ns, stat.st_ino, stat.st_size) if stat else (0, 0, 0)


def _token(user: User) -> str:
    """Return the bearer token. Transient: its file cannot be read. Invalid: no HTTP header can contain it."""
    if not user.token_file:
        return _checked(user.token, "the token of the user")
    try:
        token = Path(user.token_file).read_text(errors="replace").strip()
    except OSError as error:
        if user.token:
            return _checked(user.token, "the token of the user")
        raise Transient(f"{user.token_file}: the token cannot be read: {error.strerror}") from error
    return _checked(token, f"{user.token_file}: the token")


def _checked(token: str, what: str) -> str:
    if token.isascii() and token.isprintable():
        return token
    raise Invalid(f"{what} contains line breaks, control or non-ASCII characters; write a token of one ASCII line")


def _context(config: ClusterConfig, user: User) -> ssl.SSLContext | None:
    if not config.server.startswith("https://"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca:
        context.load_verify_locations(cadata=config.ca.read().decode("ascii", errors="replace"))
    else:
        context.load_default_certs()
    if user.certificate:
        _load_chain(context, user.certificate.read(), (user.key or user.certificate).read())
    return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and key that are in memory; the ssl module reads files only."""
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
