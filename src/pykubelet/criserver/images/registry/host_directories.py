"""Directories with one directory for each registry, as containerd's ``certs.d``: hosts.toml, or certificates."""

import errno
import tomllib
from collections.abc import Sequence
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.images.registry.config import Endpoint
from pykubelet.criserver.images.registry.hosts_file import FILE, parse_certificates, parse_hosts

_LONGEST = 1 * MIB
_DEFAULT = "_default"


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
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also numbers that are too long
        raise Invalid(f"{file}: not TOML: {error}") from error
    return parse_hosts(document, host, str(directory))
