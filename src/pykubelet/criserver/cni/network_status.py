"""What plugins say of themselves (STATUS, since CNI 1.1)."""

import logging

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import NetworkList
from pykubelet.criserver.cni.plan.network_spec import bare_input, supports_status, unready
from pykubelet.criserver.cni.plugins import PluginFailed, Plugins

_log = logging.getLogger(__name__)
_LIMIT: Seconds = 10.0
"""Time limit of one plugin's answer; a network whose plugin hangs is not ready."""


class NetworkStatus:
    """Asks the plugins of a network whether they are ready."""

    def __init__(self, *, plugins: Plugins) -> None:
        self._plugins = plugins
        self._asked: NetworkList | None = None
        self._problem = ""

    def problem(self, network: NetworkList) -> str:
        """Why the network's plugins cannot attach pods; empty if they can, or do not tell."""
        if not supports_status(network):
            return ""
        if self._asked is None or self._asked.name != network.name or not supports_status(self._asked):
            return f"network {network.name}: its plugins were not asked yet"
        return self._problem  # that of its former configuration, until the plugins of the new one have answered

    async def ask(self, network: NetworkList) -> None:
        """Ask the network's plugins for their status, in their order; the first that is not ready decides."""
        problem = ""
        for plugin in network.plugins if supports_status(network) else ():
            try:
                await self._plugins.ask("STATUS", bare_input(network, plugin), _LIMIT)
            except PluginFailed as error:
                problem = unready(network, str(plugin["type"]), error.code, error.said)
                break
            except Transient as error:
                problem = f"network {network.name}: {error}"
                break
        if (network, problem) != (self._asked, self._problem) and (problem or self._problem):
            _log.log(logging.WARNING if problem else logging.INFO, "pod network status", extra={"problem": problem})
        self._asked, self._problem = network, problem
