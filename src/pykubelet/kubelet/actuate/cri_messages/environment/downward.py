"""Downward API: values of the pod's fields and resources, for environment variables and volumes.

Paths and formats are those of the Kubernetes API (`ObjectFieldSelector`, `ResourceFieldSelector`).
"""

import re
from collections.abc import Mapping, Sequence

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext, container_error
from pykubelet.kubelet.types.ip_addresses import parse_ip
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models import quantity
from pykubelet.models.core_v1 import ObjectFieldSelector, Pod, ResourceFieldSelector
from pykubelet.models.scalars import Quantity

_SUBSCRIPT = re.compile(r"(?P<path>[^\[]+)\['(?P<key>.*)'\]", re.DOTALL)
_QUALIFIED = re.compile(r"(?:(?P<prefix>[^/]+)/)?(?P<name>[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME, _MAX_PREFIX = 63, 253
_DEFAULTED = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
            "\\": "\\\\", '"': '\\"'}  # fmt: skip


def field_ref_value(pod: Pod, ref: ObjectFieldSelector, context: DownwardContext) -> str:
    """Value of a `fieldRef`. Raises ConfigError for an unknown version or field."""
    if ref.api_version not in ("", "v1"):
        raise container_error(f"unsupported pod version: {ref.api_version}")
    return field_value(pod, ref.field_path, context)


def field_value(pod: Pod, path: str, context: DownwardContext) -> str:
    """The value of a field such as ``metadata.labels['app']`` or ``status.podIP``.

    All labels or annotations are lines of ``key="escaped value"``, sorted by key. A missing value is empty. Raises
    ConfigError for a path that the downward API does not support.
    """
    meta, spec = pod.metadata, pod.spec
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return _subscripted(pod, subscript["path"], subscript["key"], path)
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return format_map(meta.labels)
        case "metadata.annotations":
            return format_map(meta.annotations)
        case "spec.nodeName" | "spec.host":
            return spec.node_name or context.node_name
        case "spec.serviceAccountName":
            return spec.service_account_name
        case "status.hostIP":
            return _host_ips(context)[0]
        case "status.hostIPs":
            return ",".join(_host_ips(context))
        case "status.podIP":
            return next(iter(_pod_ips(pod, context)), "")
        case "status.podIPs":
            return ",".join(_pod_ips(pod, context))
        case _:
            raise container_error(f"field label not supported: {path}")


def resource_value(pod: Pod, container: AnyContainer, ref: ResourceFieldSelector, context: DownwardContext) -> str:
    """The value of a `resourceFieldRef` in units of its divisor, rounded up.

    The reference is about `container` unless it names another one. The default of a limit is the pod's limit, else
    node allocatable; of a request, 0. Raises ConfigError for an unknown container or resource, or an invalid quantity.
    """
    if ref.container_name and ref.container_name != container.name:
        container = _find(pod, ref.container_name)
    kind, _, name = ref.resource.partition(".")
    if kind not in ("limits", "requests") or not (name in _DEFAULTED or name.startswith(_HUGE_PAGES)):
        raise container_error(f"unsupported container resource : {ref.resource}")
    own = container.resources
    amounts: Mapping[str, Quantity] = {} if own is None else own.limits if kind == "limits" else own.requests
    try:
        amount = quantity.parse(amounts.get(name, 0))
        if kind == "limits" and name in _DEFAULTED and not amount.nano:
            amount = _default_limit(pod, name, context)
        divisor = quantity.parse(ref.divisor or 0)
        if not divisor.nano:
            divisor = quantity.parse(1)
    except Invalid as error:
        raise container_error(f"container {container.name}: {ref.resource}: {error}") from error
    if name == "cpu":
        return str(-(-amount.milli // divisor.milli))
    return str(-(-amount.value // divisor.value))


def ordered_pod_ips(pod_ips: Sequence[str], node_ips: Sequence[str]) -> tuple[str, ...]:
    """Pod IPs as in status and downward API: one of the node's primary IP family, then one of the other.

    The runtime may return any number in any order. Invalid addresses are left out.
    """
    parsed = [ip for ip in map(parse_ip, pod_ips) if ip]
    node = next((ip for ip in map(parse_ip, node_ips) if ip), None)
    first = node.version if node else 4
    return tuple(
        str(next(ip for ip in parsed if ip.version == version))
        for version in (first, 10 - first)
        if any(ip.version == version for ip in parsed)
    )


def format_map(values: Mapping[str, str]) -> str:
    """Format a map for the downward API: sorted lines of ``key="value"``, with values quoted as in Go."""
    return "\n".join(f"{key}={_quoted(values[key])}" for key in sorted(values))


def _subscripted(pod: Pod, path: str, key: str, whole: str) -> str:
    match path:
        case "metadata.labels":
            values, checked = pod.metadata.labels, key
        case "metadata.annotations":
            values, checked = pod.metadata.annotations, key.lower()  # annotations' keys may have upper case prefixes
        case _:
            raise container_error(f"field label does not support subscript: {whole}")
    if not _is_qualified(checked):
        raise container_error(
            f"invalid key subscript in {whole}: it is not the name of a label, such as app or a.b/app"
        )
    return values.get(key, "")


def _is_qualified(key: str) -> bool:
    match = _QUALIFIED.fullmatch(key)
    if match is None or len(match["name"]) > _MAX_NAME:
        return False
    prefix = match["prefix"]
    return prefix is None or (len(prefix) <= _MAX_PREFIX and _PREFIX.fullmatch(prefix) is not None)


def _host_ips(context: DownwardContext) -> tuple[str, ...]:
    if not context.host_ips:
        raise container_error("the node's address is not known yet")
    return context.host_ips


def _pod_ips(pod: Pod, context: DownwardContext) -> tuple[str, ...]:
    if pod.spec.host_network and not context.pod_ips:
        return ordered_pod_ips(context.host_ips, context.host_ips)
    return ordered_pod_ips(context.pod_ips, context.host_ips)


def _find(pod: Pod, name: str) -> AnyContainer:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise container_error(f"container {name} not found")


def _default_limit(pod: Pod, name: str, context: DownwardContext) -> quantity.Amount:
    whole = pod.spec.resources
    if whole and name != "ephemeral-storage":  # which a pod as a whole cannot limit
        limit = quantity.parse(whole.limits.get(name, 0))
        if limit.nano:
            return limit
    return quantity.parse(context.allocatable.get(name, 0))


def _quoted(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


class _EscapeTable(dict[int, str]):
    """Escapes of characters: those of ASCII are looked up, others computed, since there are so many."""

    def __missing__(self, code: int) -> str:
        return _shown(code)


def _shown(code: int) -> str:
    letter = chr(code)
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_QUOTED = _EscapeTable({code: _shown(code) for code in range(0x80)})
