"""The status of CNI plugins, by their command STATUS (since CNI 1.1)."""

import logging
from collections.abc import Sequence

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import NetworkList
from pykubelet.criserver.cni.plan.network_spec import bare_input, supports_status, unready
from pykubelet.criserver.cni.plugins import PluginFailed, Plugins

_log = logging.getLogger(__name__)
_LIMIT: Seconds = 10.0
"""Time limit of one plugin's answer; a network whose plugin hangs is not ready."""


class NetworkStatus:
    """Asks the plugins of the networks in use whether they are ready."""

    def __init__(self, *, plugins: Plugins) -> None:
        self._plugins = plugins
        self._asked: tuple[tuple[NetworkList, str], ...] = ()
        """The networks and their problems, in the order of the networks."""

    def problem(self, networks: Sequence[NetworkList]) -> str:
        """The reason why the plugins of a network cannot attach pods; empty if all can, or do not tell."""
        for index, network in enumerate(networks):
            if not supports_status(network):
                continue
            asked, problem = self._asked[index] if index < len(self._asked) else (None, "")
            if asked is None or asked.name != network.name or not supports_status(asked):
                return f"network {network.name}: its plugins were not asked yet"
            if problem:
                return problem  # that of its former configuration, until the plugins of the new one have answered
        return ""

    async def ask(self, networks: Sequence[NetworkList]) -> None:
        """Ask the plugins of each network for their status, in their order; the first that is not ready decides."""
        found = tuple([(network, await self._ask(network)) for network in networks])
        problems, former = ([problem for _, problem in each if problem] for each in (found, self._asked))
        if found != self._asked and (problems or former):
            extra = {"problem": "; ".join(problems)}
            _log.log(logging.WARNING if problems else logging.INFO, "pod network status", extra=extra)
        self._asked = found

    async def _ask(self, network: NetworkList) -> str:
        for plugin in network.plugins if supports_status(network) else ():
            try:
                await self._plugins.ask("STATUS", bare_input(network, plugin), _LIMIT)
            except PluginFailed as error:
                return unready(network, str(plugin["type"]), error.code, error.said)
            except PykubeletError as error:  # a plugin that is missing, hangs or cannot be executed
                return f"network {network.name}: {error}"
        return ""
