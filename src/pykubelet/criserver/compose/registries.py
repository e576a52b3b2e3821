"""The registries of the configuration: the settings, the registries file, and the directories of single registries."""

from collections.abc import Mapping

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import RegistryHost, RegistryTable, Settings
from pykubelet.criserver.images.registry import HostConfig, HostDirectories, PullBandwidth, Tls


class ConfiguredRegistries:
    """Registries and bandwidth limit of pulls. Changed files are read again; a reload replaces the settings."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._table = RegistryTable(settings.registries_file, settings.registries)
        self.directories = HostDirectories(settings.registry_dirs)
        self.bandwidth = PullBandwidth(settings.pull_bandwidth, clock)

    def configure(self, settings: Settings) -> None:
        """Use other settings from now on; pulls that run go on with the former ones."""
        self._table.configure(settings.registries_file, settings.registries)
        self.directories.configure(settings.registry_dirs)
        self.bandwidth.configure(settings.pull_bandwidth)

    def hosts(self) -> dict[str, HostConfig]:
        """The present configuration of hosts. Blocks briefly. Raises Invalid."""
        return {name: _host(host) for name, host in self._table.hosts().items()}

    def described(self) -> tuple[dict[str, object], list[str]]:
        """Return the settings in force, for the status, and the errors of the files. Blocking."""
        hosts: Mapping[str, RegistryHost] = {}
        try:
            hosts, problem = self._table.hosts(), self._table.problem()
        except Invalid as error:
            problem = str(error)
        servers, problems = self.directories.described()
        return {"hosts": hosts, "directories": servers}, [*([problem] if problem else []), *problems]


def _host(given: RegistryHost) -> HostConfig:
    tls = Tls(
        ca=given.ca,
        client_certificate=given.client_certificate,
        client_key=given.client_key,
        skip_verify=given.skip_verify,
    )
    return HostConfig(given.mirrors, given.plain_http, tls, given.username, given.password)
