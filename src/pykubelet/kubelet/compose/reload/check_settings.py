"""The rules of the configuration that the components know: a start and a reload check them before anything changes."""

from typing import Final

from pykubelet.kubelet.actuate.assembly import gc_policy, node_options, rotation_config
from pykubelet.kubelet.actuate.node import read_machine
from pykubelet.kubelet.actuate.node.enforcement import reserved_cgroups
from pykubelet.kubelet.compose.kubelet_api import check_files, check_tls_names
from pykubelet.kubelet.compose.observe import eviction_config, shutdown_periods, stats_config
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import check_server, server_enabled

_CONVERSIONS: Final = (rotation_config, gc_policy, eviction_config, shutdown_periods, stats_config)


def check_settings(settings: Settings) -> None:
    """Make the settings of all components, without an effect. Raises Invalid, which begins with the field. Blocks."""
    for convert in _CONVERSIONS:
        convert(settings)
    node_options(settings, read_machine(settings))
    reserved_cgroups(settings.config)
    check_server(settings)
    if server_enabled(settings):
        check_tls_names(settings)


def check_start(settings: Settings) -> None:
    """Check the settings, and the files that the servers read at the start. Raises Invalid. Blocks.

    A reload leaves out the files, which other programs may be replacing at that moment.
    """
    check_settings(settings)
    if server_enabled(settings):
        check_files(settings)
