"""The rules of the CNI specification: configurations, plugin input, results. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from pykubelet.base.documents import read_json
from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.criserver.cni.network_types import AttachRequest, Json, Masquerade, NetworkList

SUPPORTED = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_SUFFIXES = (".conflist", ".conf", ".json")
_CHECK_SINCE = ("0.4.0", "1.0.0", "1.1.0")
_BRIDGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_OWN = "pykubelet"
"""The field of a configuration that only this server reads."""
_IDLE = {"portmap": ("portMappings", frozenset[str]()), "bandwidth": ("bandwidth", frozenset({"type", "capabilities"}))}
"""Plugins that only serve one capability, and the fields that their configuration may have for that (empty: any)."""


def candidates(names: Iterable[str]) -> list[str]:
    """The names of possible configuration files, in the order in which they are tried."""
    return sorted(name for name in names if name.endswith(_SUFFIXES) and not name.startswith("."))


def parse_network(data: bytes, origin: str) -> NetworkList:
    """Parse a configuration list, or a single configuration as a list of one. Raises Invalid with file and field."""
    try:
        document = read_json(data)
    except Invalid as error:
        raise Invalid(f"{origin}: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{origin}: must be one object")
    name, version = document.get("name"), document.get("cniVersion", "")
    if not isinstance(name, str) or not name or "/" in name:
        raise Invalid(f"{origin}: name must be a text without slashes")
    if version not in SUPPORTED:
        raise Invalid(f"{origin}: cniVersion {version!r} is not known; use one of {', '.join(SUPPORTED)}")
    plugins = document.get("plugins") if "plugins" in document else [document]
    if not isinstance(plugins, list) or not plugins:
        raise Invalid(f"{origin}: plugins must be a list that is not empty")
    for index, plugin in enumerate(plugins):
        _check_plugin(plugin, f"{origin}: plugins[{index}]")
    checked = document.get("disableCheck") is True
    return NetworkList(name, str(version), tuple(plugins), checked, _masquerade(document.get(_OWN), origin))


def _masquerade(own: object, origin: str) -> Masquerade | None:
    asked = own.get("masquerade") if isinstance(own, dict) else None
    if asked is None:
        return None
    bridge, subnet = (asked.get(name) for name in ("bridge", "subnet")) if isinstance(asked, dict) else (None, None)
    try:
        if isinstance(bridge, str) and _BRIDGE.fullmatch(bridge) and isinstance(subnet, str):
            return Masquerade(bridge, str(ipaddress.ip_network(subnet)))
    except ValueError:
        pass
    raise Invalid(f"{origin}: {_OWN}.masquerade must have a bridge and a subnet, as pyk0 and 10.88.0.0/16")


def _check_plugin(plugin: object, origin: str) -> None:
    kind = plugin.get("type") if isinstance(plugin, dict) else None
    if not isinstance(kind, str) or not kind:
        raise Invalid(f"{origin}.type must be the name of a plugin")
    # A path would let a configuration run any program (CVE-2021-20206).
    if "/" in kind or kind in (".", ".."):
        raise Invalid(f"{origin}.type {kind!r} must be the bare name of a plugin, not a path")


def plugin_input(network: NetworkList, plugin: Json, request: AttachRequest, previous: Json | None) -> Json:
    """The document that a plugin reads from its standard input."""
    document: Json = {key: value for key, value in plugin.items() if key != "capabilities"}
    document |= {"name": network.name, "cniVersion": network.version}
    capabilities = plugin.get("capabilities")
    if isinstance(capabilities, dict):
        wanted = {name for name, on in capabilities.items() if on is True}
        arguments = {name: value for name, value in runtime_arguments(request).items() if name in wanted}
        if arguments:
            document["runtimeConfig"] = arguments
    if previous is not None:
        document["prevResult"] = previous
    return document


def busy_plugins(network: NetworkList, request: AttachRequest) -> list[Json]:
    """The plugins that have work to do for a request, in their order.

    Plugins that only serve a capability which the request does not use would return the result unchanged, so they are
    not run.
    """
    given = runtime_arguments(request)
    first, further = network.plugins[:1], network.plugins[1:]
    return [*first, *(plugin for plugin in further if not _is_idle(plugin, given))]


def _is_idle(plugin: Json, given: Json) -> bool:
    capability, fields = _IDLE.get(str(plugin["type"]), ("", frozenset[str]()))
    served = plugin.get("capabilities")
    only = isinstance(served, dict) and served.get(capability) is True and (not fields or fields >= set(plugin))
    return only and capability not in given


def runtime_arguments(request: AttachRequest) -> Json:
    """The capability arguments (CNI conventions document); those without a value are left out."""
    arguments: Json = {}
    ports = [
        {"hostPort": p.host_port, "containerPort": p.container_port, "protocol": p.protocol}
        | ({"hostIP": p.host_ip} if p.host_ip else {})
        for p in request.ports
        if p.host_port > 0
    ]
    if ports:
        arguments["portMappings"] = ports
    if request.ingress_rate or request.egress_rate:
        bandwidth: Json = {}
        # The plugin rejects a rate without a burst; the burst is the largest number that the plugin accepts.
        for name, rate in (("ingress", request.ingress_rate), ("egress", request.egress_rate)):
            if rate:
                bandwidth |= {f"{name}Rate": rate, f"{name}Burst": 2**31 - 1}
        arguments["bandwidth"] = bandwidth
    if request.ips:
        arguments["ips"] = list(request.ips)
    if request.mac:
        arguments["mac"] = request.mac
    dns = {"servers": request.dns_servers, "searches": request.dns_searches, "options": request.dns_options}
    if any(dns.values()):
        arguments["dns"] = {name: list(values) for name, values in dns.items() if values}
    return arguments


def environment(command: str, request: AttachRequest, netns: str, plugin_path: str) -> dict[str, str]:
    """The environment variables of a plugin call; ``netns`` may be empty for DEL."""
    arguments = {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": request.namespace,
        "K8S_POD_NAME": request.pod,
        "K8S_POD_INFRA_CONTAINER_ID": request.sandbox,
        "K8S_POD_UID": request.uid,
    }
    for name, value in arguments.items():
        if ";" in value or "\0" in value:
            raise Invalid(f"{name} {value!r} has a semicolon or a NUL, which CNI arguments cannot carry")
    return {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": request.sandbox,
        "CNI_NETNS": netns,
        "CNI_IFNAME": request.interface,
        "CNI_ARGS": ";".join(f"{name}={value}" for name, value in arguments.items()),
        "CNI_PATH": plugin_path,
    }


def supports_check(network: NetworkList) -> bool:
    """Whether CHECK may be called on this network."""
    return network.version in _CHECK_SINCE and not network.disable_check


def addresses(result: Mapping[str, object]) -> tuple[str, ...]:
    """The pod's addresses in a result, without prefix lengths.

    Addresses of interfaces outside the sandbox (those of a bridge) are left out.
    """
    interfaces = result.get("interfaces")
    inside = [isinstance(each, dict) and bool(each.get("sandbox")) for each in _list(interfaces)]
    found = []
    for entry in _list(result.get("ips")):
        if not isinstance(entry, dict) or not isinstance(entry.get("address"), str):
            continue
        index = entry.get("interface")
        if isinstance(index, int) and 0 <= index < len(inside) and not inside[index]:
            continue
        address = entry["address"].partition("/")[0]
        with suppress(ValueError):
            ipaddress.ip_address(address)
            found.append(address)
    return tuple(found)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def parse_reply(data: bytes, plugin: str) -> Json:
    """Parse a plugin's result. Raises Invalid if it is not an object."""
    try:
        # The result is stored with the attachment: its text must be encodable.
        reply = read_json(data) if data.strip() else {}
    except Invalid as error:
        raise Invalid(f"CNI plugin {plugin} answered: {error}") from error
    if not isinstance(reply, dict):
        raise Invalid(f"CNI plugin {plugin} answered no object")
    return reply


def failure(data: bytes, stderr: bytes) -> str:
    """The message of a failed plugin: its error object, else its output."""
    try:
        reply = read_json(data)
        parts = [str(reply[key]) for key in ("msg", "details") if reply.get(key)] if isinstance(reply, dict) else []
        if parts:
            return printable(": ".join(parts)[:2048])
    except Invalid:
        pass
    return (stderr or data).decode(errors="replace").strip()[-2048:] or "no message"


def default_network(bridge: str, subnet: str, data_dir: str, *, limits: bool = False) -> Json:
    """The default network, for machines without a network configuration: a bridge with its own addresses.

    ``limits``: the bandwidth plugin is installed.
    """
    routes = [{"dst": "0.0.0.0/0"}]
    ipam = {"type": "host-local", "dataDir": data_dir, "ranges": [[{"subnet": subnet}]], "routes": routes}
    link = {
        "type": "bridge",
        "bridge": bridge,
        "isGateway": True,
        "hairpinMode": True,
        "capabilities": {"ips": True, "mac": True},
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    rates = [{"type": "bandwidth", "capabilities": {"bandwidth": True}}] if limits else []
    own = {"masquerade": {"bridge": bridge, "subnet": subnet}}
    # Plugins write the name into the comments of their firewall rules: rules of two servers must differ.
    return {"cniVersion": "1.0.0", "name": bridge, "plugins": [link, ports, *rates], _OWN: own}
