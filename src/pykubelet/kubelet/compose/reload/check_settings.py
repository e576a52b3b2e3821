"""The rules of the configuration that the components know: a start and a reload check them before anything changes."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.kubelet.actuate.assembly import check_machine, gc_policy, node_options, rotation_config
from pykubelet.kubelet.actuate.cri.transport import socket_path
from pykubelet.kubelet.actuate.node import read_machine
from pykubelet.kubelet.actuate.node.enforcement import reserved_cgroups
from pykubelet.kubelet.compose.kubelet_api import check_files, check_tls_names
from pykubelet.kubelet.compose.reload.held_ports import Port, server_ports
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import check_server, server_enabled
from pykubelet.kubelet.desired.manifest.validate.names import label_value, qualified_name
from pykubelet.kubelet.observe.eviction.eviction_config import eviction_config
from pykubelet.kubelet.observe.node_shutdown.shutdown_config import shutdown_periods
from pykubelet.kubelet.observe.stats.stats_config import stats_config
from pykubelet.kubelet.serve.common.binding import ANY_ADDRESS, bind
from pykubelet.models.core_v1 import Taint

_CONVERSIONS: Final = (rotation_config, gc_policy, eviction_config, shutdown_periods, stats_config)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FILES: Final = ("tls_cert_file", "tls_private_key_file", "authentication")
_MACHINE: Final = (
    *("cgroup_root", "cgroups_per_qos", "enforce_node_allocatable", "eviction_hard", "fail_cgroup_v1"),
    *("fail_swap_on", "kube_reserved", "kube_reserved_cgroup", "memory_swap", "merge_default_eviction_settings"),
    *("single_process_oom_kill", "system_reserved", "system_reserved_cgroup"),
)


def check_settings(settings: Settings) -> None:
    """Make the settings of all components, without an effect. Raises Invalid, which begins with the field. Blocks."""
    for convert in _CONVERSIONS:
        convert(settings)
    _check_endpoints(settings)
    if wrong := list(_wrong_taints(settings.config.register_with_taints)):
        raise Invalid("; ".join(wrong))
    node_options(settings, read_machine(settings))
    reserved_cgroups(settings.config)
    check_server(settings)
    if server_enabled(settings):
        check_tls_names(settings)
    _check_ports_differ(settings)


def check_start(settings: Settings) -> None:
    """Check the settings, the machine, and the files that the servers read at the start. Raises Invalid. Blocks."""
    check_settings(settings)
    check_machine(settings)
    if server_enabled(settings):
        check_files(settings)


def check_reload(started: Settings, wanted: Settings) -> None:
    """Check the settings that a reload has read; ``started`` are those of the start. Raises Invalid. Blocks.

    What waits for a restart must not prevent that restart. Of the machine and of files only changed fields are checked:
    at that moment, other programs may be replacing the files.
    """
    check_settings(wanted)
    if _differ(started, wanted, _MACHINE):
        check_machine(wanted)
    if server_enabled(wanted) and (_differ(started, wanted, _FILES) or not server_enabled(started)):
        check_files(wanted)
    check_ports(wanted, taken=server_ports(started))


def check_ports(settings: Settings, taken: Sequence[Port] = ()) -> None:
    """Check that the servers can listen on their ports; ``taken`` are the agent's own. Raises Invalid. Blocks."""
    own = {port.number for port in taken}
    for port in server_ports(settings):
        # A port of the agent itself may be kept on another address, which cannot be tried out now.
        if port.number and port.number not in own:
            remedy = "stop the program that uses it, or choose another port"
            try:
                bind(port.address, port.number, port.field, remedy).close()
            except PykubeletError as error:
                raise Invalid(f"{port.field}: {error}") from error


def _check_ports_differ(settings: Settings) -> None:
    """Check that no two servers have the same port: the second could not listen. Raises Invalid."""
    for one, other in combinations([port for port in server_ports(settings) if port.number], 2):
        addresses = {one.address, other.address}
        if one.number == other.number and (len(addresses) == 1 or addresses & ANY_ADDRESS):
            raise Invalid(f"{other.field}: {other.number} is the port of {one.field}, too; choose another port")


def _differ(one: Settings, other: Settings, fields: Sequence[str]) -> bool:
    return any(getattr(one.config, name) != getattr(other.config, name) for name in fields)


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


def _wrong_taints(taints: Sequence[Taint]) -> Iterator[str]:
    """Yield the violations of the API server's rules, which would refuse the node. Source: ``ValidateNodeSpec``."""
    for index, taint in enumerate(taints):
        field = f"registerWithTaints[{index}]"
        for name, fault in (("key", qualified_name(taint.key)), ("value", label_value(taint.value))):
            if fault:
                yield f"{field}.{name}: {fault}"
        if taint.effect not in _EFFECTS:
            yield f"{field}.effect: {taint.effect!r} is not known; use one of {', '.join(_EFFECTS)}"
        if taint.time_added is not None:
            yield f"{field}.timeAdded: must not be set; omit it"
        if any((taint.key, taint.effect) == (other.key, other.effect) for other in taints[:index]):
            yield f"{field}: key {taint.key!r} with effect {taint.effect!r} is there already"
