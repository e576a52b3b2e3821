"""Directories with one directory for each registry, as containerd's ``certs.d``: hosts.toml, or certificates."""

import errno
import logging
import re
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import has_nul, read_toml
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.images.registry.config import Endpoint
from pykubelet.criserver.images.registry.hosts_file import FILE, parse_certificates, parse_hosts

_log = logging.getLogger(__name__)
_LONGEST = 1 * MIB
_DEFAULT = "_default"
_WITH_PORT = re.compile(r"(.+)_([0-9]{1,5})_")
_MOST_HOSTS = 256
"""Registries whose last valid configuration is remembered."""


class _RegistryState(Struct, frozen=True):
    """State of a registry: its last valid servers, and the errors of the present files."""

    valid: tuple[Endpoint, ...] | None = None
    error: str = ""


class HostDirectories:
    """The directories of the registries. They are read at each pull; what was valid stays in force while it is not."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._known: OrderedDict[str, _RegistryState] = OrderedDict()

    def configure(self, directories: Sequence[Path]) -> None:
        """Read other directories from now on."""
        self._directories = tuple(directories)

    def find(self, host: str) -> tuple[Endpoint, ...]:
        """The servers of a registry, see `find_endpoints`; Invalid: no version was valid since the start. Blocking."""
        known = self._look(host)
        if known.valid is None:
            raise Invalid(known.error)
        return known.valid

    def described(self) -> tuple[dict[str, list[str]], list[str]]:
        """The servers of each registry that has a directory, and what is wrong in those directories. Blocking."""
        servers: dict[str, list[str]] = {}
        problems: list[str] = []
        for host in self._hosts():
            known = self._look(host)
            if known.error:
                problems.append(known.error)
            if known.valid:
                servers[host] = [f"{each.base}{each.api}" for each in known.valid]
        return servers, problems

    def _look(self, host: str) -> _RegistryState:
        last = self._known.pop(host, _RegistryState())
        try:
            known = _RegistryState(find_endpoints(self._directories, host))
        except Invalid as error:
            known = _RegistryState(last.valid, str(error))
            if known.error != last.error:
                in_force = "none" if last.valid is None else "the former version"
                _log.error("registry configuration refused", extra={"error": known.error, "in_force": in_force})
        self._known[host] = known
        while len(self._known) > _MOST_HOSTS:
            self._known.popitem(last=False)
        return known

    def _hosts(self) -> list[str]:
        found: set[str] = set()
        for top in self._directories:
            with suppress(OSError):
                found |= {_host_of(path.name) for path in top.iterdir() if path.is_dir()}
        return sorted(found)[:_MOST_HOSTS]


def _host_of(directory: str) -> str:
    """The registry of a directory's name; see `_names`."""
    match = _WITH_PORT.fullmatch(directory)
    return f"{match[1]}:{match[2]}" if match else directory


def find_endpoints(directories: Sequence[Path], host: str) -> tuple[Endpoint, ...]:
    """The servers that the first directory of a registry names; none if there is no such directory. Blocking.

    Raises Invalid, which names the file and the cause.
    """
    for top in directories:
        for name in _names(host):
            directory = top / name
            try:
                entries = sorted(path.name for path in directory.iterdir())
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise Invalid(f"{directory} cannot be read: {error.strerror}") from error
            return _read(directory, entries, host)
    return ()


def _names(host: str) -> tuple[str, ...]:
    """The directories of a registry, the best first; on some file systems a name cannot have a colon."""
    name, colon, port = host.rpartition(":")
    return (*((f"{name}_{port}_",) if colon else ()), host, _DEFAULT)


def _read(directory: Path, entries: list[str], host: str) -> tuple[Endpoint, ...]:
    file = directory / FILE
    try:
        data = read_regular(file, _LONGEST)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror or error}") from error
    if not data.strip():
        return (parse_certificates(entries, host, str(directory)),)
    try:
        document = read_toml(data)
    except Invalid as error:
        raise Invalid(f"{file}: {error}") from error
    if has_nul(document):
        raise Invalid(f"{file}: contains NUL (\\0); remove it")
    return parse_hosts(document, host, str(directory))
