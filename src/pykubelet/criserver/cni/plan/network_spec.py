"""The rules of the CNI specification: configurations, plugin input, results. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import read_json
from pykubelet.base.text import printable
from pykubelet.criserver.cni.network_types import AttachRequest, Json, Masquerade, NetworkList

SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
"""The versions of the specification, the oldest first."""
_SUFFIXES = (".conflist", ".conf", ".json")
_CHECK_SINCE = ("0.4.0", "1.0.0", "1.1.0")
_STATUS_SINCE = ("1.1.0",)
_STATUS_CODES = {50: "cannot take further pods", 51: "cannot take further pods, and existing ones may be cut off"}
"""Codes by which plugins say that they are not ready (CNI 1.1, "STATUS")."""
_ANNOTATIONS = "io.kubernetes.cri.pod-annotations"
"""The capability by which plugins get the pod's annotations, as containerd names it."""
_BRIDGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
"""The names of networks (CNI specification, section 1)."""
_OWN = "pykubelet"
"""The field of a configuration that only this server reads."""
_IDLE = {"portmap": ("portMappings", frozenset[str]()), "bandwidth": ("bandwidth", frozenset({"type", "capabilities"}))}
"""Plugins that only serve one capability, and the fields that their configuration may have for that (empty: any)."""


def candidates(names: Iterable[str]) -> list[str]:
    """The names of possible configuration files, in the order in which they are tried."""
    return sorted(name for name in names if name.endswith(_SUFFIXES) and not name.startswith("."))


def may_have_directory(network: str) -> bool:
    """Whether a directory may be named after the network: only if its name is one of the specification."""
    return _NAME.fullmatch(network) is not None


def further_plugins(names: Iterable[str]) -> list[str]:
    """The files of a network's directory that each configure one further plugin, in their order."""
    return sorted(name for name in names if name.endswith(".conf") and not name.startswith("."))


def parse_network(data: bytes, origin: str) -> NetworkList:
    """Parse a configuration list, or a single configuration as a list of one. Raises Invalid with file and field.

    `with_plugins` completes it with the plugins of other files; a list may have only those.
    """
    try:
        document = read_json(data)
    except Invalid as error:
        raise Invalid(f"{origin}: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{origin}: must be one object")
    name, version = document.get("name"), _version(document)
    if not isinstance(name, str) or not name or "/" in name:
        raise Invalid(f"{origin}: name must be a text without slashes")
    if not version:
        said = document.get("cniVersion", document.get("cniVersions", ""))
        raise Invalid(f"{origin}: cniVersion {said!r} is not known; use one of {', '.join(SUPPORTED)}")
    is_list = "plugins" in document or origin.endswith(".conflist")
    plugins = document.get("plugins", []) if is_list else [document]
    if not isinstance(plugins, list):
        raise Invalid(f"{origin}: plugins must be a list")
    for index, plugin in enumerate(plugins):
        _check_plugin(plugin, f"{origin}: plugins[{index}]")
    return NetworkList(
        name=name,
        version=version,
        plugins=tuple(plugins),
        disable_check=_switch(document, "disableCheck", origin),
        masquerade=_masquerade(document.get(_OWN), origin),
        disable_gc=_switch(document, "disableGC", origin),
        only_inlined=not is_list or _switch(document, "loadOnlyInlinedPlugins", origin),
    )


def with_plugins(network: NetworkList, files: Iterable[tuple[str, bytes]], origin: str) -> NetworkList:
    """Return the network with the plugins of further files (their names and contents) behind its own.

    They are those of the directory that is named after the network, beside its configuration (CNI 1.1, "aggregated"
    plugins). Raises Invalid for a file that configures no plugin, or if there is no plugin at all.
    """
    found = list(network.plugins)
    for name, data in files:
        try:
            plugin = read_json(data)
        except Invalid as error:
            raise Invalid(f"{name}: {error}") from error
        _check_plugin(plugin, name)
        assert isinstance(plugin, dict), "it has been checked"
        found.append(plugin)
    if not found:
        raise Invalid(f"{origin}: plugins must be a list that is not empty")
    return replace(network, plugins=tuple(found))


def _switch(document: Mapping[str, object], name: str, origin: str) -> bool:
    """A field that is a boolean, or its text in any case, as libcni reads it."""
    value = document.get(name, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise Invalid(f"{origin}: {name} must be true or false")
    return value


def _version(document: Mapping[str, object]) -> str:
    """The newest known version among ``cniVersion`` and ``cniVersions``; empty if none is known.

    A configuration without either is of 0.1.0, which the first specification left unsaid.
    """
    named = _list(document.get("cniVersions"))
    if document.get("cniVersion") or not named:
        named = [*named, document.get("cniVersion") or SUPPORTED[0]]
    return next((version for version in reversed(SUPPORTED) if version in named), "")


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
    raise Invalid(f"{origin}: {_OWN}.masquerade must have a bridge and a subnet, as pyk0 and 10.87.0.0/16")


def _check_plugin(plugin: object, origin: str) -> None:
    kind = plugin.get("type") if isinstance(plugin, dict) else None
    if not isinstance(kind, str) or not kind:
        raise Invalid(f"{origin}.type must be the name of a plugin")
    # A path would let a configuration run any program (CVE-2021-20206).
    if "/" in kind or kind in (".", ".."):
        raise Invalid(f"{origin}.type {kind!r} must be the bare name of a plugin, not a path")


def plugin_input(network: NetworkList, plugin: Json, request: AttachRequest, previous: Json | None) -> Json:
    """The document that a plugin reads from its standard input."""
    document = bare_input(network, plugin)
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
    if request.annotations:
        arguments[_ANNOTATIONS] = dict(request.annotations)
    if request.cgroup_parent:
        arguments["cgroupPath"] = request.cgroup_parent
    return arguments


def check_arguments(request: AttachRequest) -> None:
    """Raise Invalid, with the argument's name, if the request has values that plugins cannot be given."""
    _arguments(request)


def environment(command: str, request: AttachRequest, netns: str, plugin_path: str) -> dict[str, str]:
    """The environment variables of a plugin call; ``netns`` may be empty for DEL."""
    return {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": request.sandbox,
        "CNI_NETNS": netns,
        "CNI_IFNAME": request.interface,
        "CNI_ARGS": _arguments(request),
        "CNI_PATH": plugin_path,
    }


def bare_environment(command: str, plugin_path: str) -> dict[str, str]:
    """The environment variables of a call that concerns no sandbox: those of a sandbox are empty, as with libcni."""
    of_sandbox = dict.fromkeys(("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"), "")
    return {"CNI_COMMAND": command, **of_sandbox, "CNI_PATH": plugin_path}


def _arguments(request: AttachRequest) -> str:
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
    return ";".join(f"{name}={value}" for name, value in arguments.items())


def bare_input(network: NetworkList, plugin: Json) -> Json:
    """The document that a plugin reads if the call concerns no sandbox."""
    document: Json = {key: value for key, value in plugin.items() if key != "capabilities"}
    return document | {"name": network.name, "cniVersion": network.version}


def collection_input(network: NetworkList, plugin: Json, valid: Iterable[tuple[str, str]]) -> Json:
    """The document of GC, which has the attachments in use as pairs of container id and interface."""
    kept = [{"containerID": container, "ifname": interface} for container, interface in valid]
    # libcni sends both keys: plugins of the time before 1.1 was published read the second one.
    return bare_input(network, plugin) | {"cni.dev/valid-attachments": kept, "cni.dev/attachments": kept}


def unready(network: NetworkList, plugin: str, code: int, said: str) -> str:
    """The reason why a network is not ready, by the error with which a plugin answered STATUS."""
    return f"network {network.name}: CNI plugin {plugin} {_STATUS_CODES.get(code, 'failed (STATUS)')}: {said}"


def supports_status(network: NetworkList) -> bool:
    """Whether STATUS and GC may be called on this network."""
    return network.version in _STATUS_SINCE


def supports_check(network: NetworkList) -> bool:
    """Whether CHECK may be called on this network."""
    return network.version in _CHECK_SINCE and not network.disable_check


def addresses(result: Mapping[str, object], interface: str = "eth0") -> tuple[str, ...]:
    """The pod's addresses in a result, without prefix lengths, those of IPv4 first.

    They are those of the pod's first interface: a second network's would be further addresses of the same family, which
    the API does not allow in a pod's status. Plugins that name no interfaces, or another one, have all of theirs taken.
    """
    interfaces = [each if isinstance(each, dict) else {} for each in _list(result.get("interfaces"))]
    own: list[str] = []
    others: list[str] = []
    for entry in _list(result.get("ips")):
        if not isinstance(entry, dict) or not isinstance(entry.get("address"), str):
            continue
        index = entry.get("interface")
        named = interfaces[index] if isinstance(index, int) and 0 <= index < len(interfaces) else None
        if named is not None and not named.get("sandbox") and named.get("name") != interface:
            continue  # a bridge of the node, for example
        first = named is None or named.get("name") == interface
        (own if first else others).append(entry["address"])
    for key in ("ip4", "ip6"):  # results of versions before 0.3.0
        entry = result.get(key)
        if isinstance(entry, dict) and isinstance(entry.get("ip"), str):
            own.append(entry["ip"])
    found = []
    for text in own or others:
        with suppress(ValueError):
            found.append(ipaddress.ip_address(text.partition("/")[0]))
    return tuple(str(each) for each in sorted(found, key=lambda each: each.version))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def parse_reply(command: str, data: bytes, plugin: str) -> Json:
    """Parse a plugin's result. Raises Invalid if it is not an object; only ADD needs one."""
    if command == "ADD" and not data.strip():
        raise Invalid(f"CNI plugin {plugin} answered nothing to ADD")
    try:
        # The result is stored with the attachment: its text must be encodable.
        reply = read_json(data) if data.strip() else {}
    except Invalid as error:
        raise Invalid(f"CNI plugin {plugin} answered: {error}") from error
    if not isinstance(reply, dict):
        raise Invalid(f"CNI plugin {plugin} answered no object")
    return reply


def error_code(data: bytes) -> int:
    """The code in a failed plugin's error object; 0 without a code."""
    try:
        reply = read_json(data)
    except Invalid:
        return 0
    code = reply.get("code") if isinstance(reply, dict) else 0
    return code if isinstance(code, int) else 0


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
