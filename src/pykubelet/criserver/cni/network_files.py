"""Reads directories of network configurations. A file that has become invalid keeps its last valid version."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PASSING, Invalid
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.cni.network_types import NetworkList
from pykubelet.criserver.cni.plan.network_spec import (
    candidates,
    further_plugins,
    may_have_directory,
    parse_network,
    with_plugins,
)
from pykubelet.criserver.types import MAX_NETWORKS

_LONGEST = 4 * MIB
"""Size limit of a configuration file in bytes."""


class FoundNetworks(Struct, frozen=True):
    """The configurations of one directory."""

    networks: Mapping[str, NetworkList]
    """By file, in the order of their precedence."""
    problems: tuple[str, ...]
    """Errors of the directory or of files."""
    missing: str = ""
    """The reason why there is no network if there are no problems either."""
    unread: bool = False
    """Something could not be read for the moment; it has to be read again although nothing changes."""

    def in_use(self, most: int) -> tuple[NetworkList, ...]:
        """The networks that pods get: the first ones, at most so many (0: no limit but ``MAX_NETWORKS``).

        Of networks with one name, which is that of their rules and addresses on the node, the first one counts.
        """
        by_name: dict[str, NetworkList] = {}
        for network in self.networks.values():
            by_name.setdefault(network.name, network)
        return tuple(by_name.values())[: most or MAX_NETWORKS]

    @property
    def why(self) -> str:
        """The reason why there is no network; empty if there is one."""
        return "" if self.networks else "; ".join(self.problems) or self.missing

    def described(self, most: int) -> list[dict[str, object]]:
        """The networks for the status, those in use first; these have the interface that pods get."""
        used = self.in_use(most)
        interfaces = {id(network): f"eth{index}" for index, network in enumerate(used)}
        found: list[dict[str, object]] = []
        for file, network in self.networks.items():
            plugins = [plugin["type"] for plugin in network.plugins]
            shown: dict[str, object] = {
                "file": file,
                "name": network.name,
                "cniVersion": network.version,
                "plugins": plugins,
            }
            interface = interfaces.get(id(network))
            found.append(shown | ({"interface": interface} if interface else {}))
        return found


class NetworkFiles:
    """Reads directories, and remembers what was valid in them."""

    def __init__(self) -> None:
        self._valid: dict[Path, FoundNetworks] = {}

    async def read(self, directory: Path) -> FoundNetworks:
        """Read all configurations of a directory."""
        former = self._valid.get(directory)
        found = await blocking.call("network", _read, directory, former.networks if former else {})
        self._valid[directory] = found
        return found


def _read(directory: Path, former: Mapping[str, NetworkList]) -> FoundNetworks:
    found: dict[str, NetworkList] = {}
    problems: list[str] = []
    try:
        names = candidates(path.name for path in directory.iterdir())
    except OSError as error:
        unread = error.errno in PASSING
        return FoundNetworks(former if unread else {}, (f"{directory}: {error.strerror}",), unread=unread)
    unread = False
    for file in (directory / name for name in names):
        try:
            found[str(file)] = _read_network(file)
        except _EmptyError:
            if str(file) in former:
                found[str(file)] = former[str(file)]
        except (Invalid, OSError) as error:
            problems.append(str(error))
            unread |= isinstance(error, OSError) and error.errno in PASSING
            if str(file) in former:
                found[str(file)] = former[str(file)]
                problems[-1] += " (its former version is in force)"
    return FoundNetworks(found, tuple(problems), f"no network configuration in {directory}", unread)


class _EmptyError(Exception):
    """A file has no content yet: another program is about to write it."""


def _read_network(file: Path) -> NetworkList:
    """Read one configuration, with its further plugins. Raises Invalid, OSError, _EmptyError."""
    data = read_regular(file, _LONGEST)
    if not data:
        raise _EmptyError
    network = parse_network(data, str(file))
    if network.only_inlined or not may_have_directory(network.name):
        return with_plugins(network, (), str(file))
    directory = file.parent / network.name
    try:
        names = further_plugins(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        names = []
    files = [(str(directory / name), read_regular(directory / name, _LONGEST)) for name in names]
    return with_plugins(network, files, str(file))
