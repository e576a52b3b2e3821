"""Checks of a start and a reload before anything changes: the rules of the configuration that the components know."""

from collections.abc import Sequence
from typing import Final

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.kubelet.actuate.assembly import check_machine, gc_policy, node_options, rotation_config
from pykubelet.kubelet.actuate.cri.transport import socket_path
from pykubelet.kubelet.actuate.host import read_machine
from pykubelet.kubelet.actuate.host.enforcement import reserved_cgroups
from pykubelet.kubelet.compose.kubelet_api import check_files, check_tls_names
from pykubelet.kubelet.compose.live_settings.held_ports import server_ports
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.plan.repeated_checks import repeated_checks
from pykubelet.kubelet.config.server import check_server, server_enabled
from pykubelet.kubelet.desired.manifest.validate.taints import wrong_taints
from pykubelet.kubelet.observe.eviction.eviction_config import eviction_config
from pykubelet.kubelet.observe.node_shutdown.shutdown_config import shutdown_periods
from pykubelet.kubelet.observe.stats.stats_config import stats_config
from pykubelet.kubelet.serve.common.binding import bind
from pykubelet.kubelet.serve.common.plan.server_ports import Port, port_clash, ports_to_try

_CONVERSIONS: Final = (rotation_config, gc_policy, eviction_config, shutdown_periods, stats_config)


def check_settings(settings: Settings) -> None:
    """Make the settings of all components, without an effect. Raises Invalid, which begins with the field. Blocks."""
    for convert in _CONVERSIONS:
        convert(settings)
    _check_endpoints(settings)
    if wrong := list(wrong_taints(settings.config.register_with_taints, "registerWithTaints")):
        raise Invalid("; ".join(wrong))
    node_options(settings, read_machine(settings))
    reserved_cgroups(settings.config)
    check_server(settings)
    if server_enabled(settings):
        check_tls_names(settings)
    if clash := port_clash(server_ports(settings)):
        raise Invalid(clash)


def check_start(settings: Settings) -> None:
    """Check the settings, the machine, and the files that the servers read at the start. Raises Invalid. Blocks."""
    check_settings(settings)
    check_machine(settings)
    if server_enabled(settings):
        check_files(settings)


def check_reload(started: Settings, wanted: Settings) -> None:
    """Check the settings that a reload has read; ``started`` are those of the start. Raises Invalid. Blocks."""
    check_settings(wanted)
    again = repeated_checks(
        started.config, wanted.config, served=server_enabled(started), serves=server_enabled(wanted)
    )
    if again.machine:
        check_machine(wanted)
    if again.files:
        check_files(wanted)
    check_ports(wanted, taken=server_ports(started))


def check_ports(settings: Settings, taken: Sequence[Port] = ()) -> None:
    """Check that the servers can listen on their ports; ``taken`` are the agent's own. Raises Invalid. Blocks."""
    remedy = "stop the program that uses it, or choose another port"
    for port in ports_to_try(server_ports(settings), taken):
        try:
            bind(port.address, port.number, port.field, remedy).close()
        except PykubeletError as error:
            raise Invalid(f"{port.field}: {error}") from error


def _check_endpoints(settings: Settings) -> None:
    for field, endpoint in (
        ("containerRuntimeEndpoint", settings.config.container_runtime_endpoint),
        ("imageServiceEndpoint", settings.config.image_service_endpoint),
        ("imageServiceEndpoint", settings.image_endpoint),
    ):
        try:
            if endpoint:
                socket_path(endpoint)
        except Invalid as error:
            raise Invalid(f"{field}: {error}") from error
