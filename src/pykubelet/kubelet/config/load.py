"""Reads KubeletConfiguration files; an error names all unknown and invalid fields at once."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pykubelet.base.errors import PASSING, Invalid, PykubeletError, Transient
from pykubelet.base.files.documents import field_places, read_yaml
from pykubelet.base.files.regular_file import read_regular
from pykubelet.base.tracing import trace_settings
from pykubelet.base.units import parse_duration
from pykubelet.kubelet.config.feature_gates import gate_is_on, wrong_gates
from pykubelet.kubelet.config.node_rules import wrong_node_fields
from pykubelet.kubelet.config.pull_verification import wrong_verification
from pykubelet.kubelet.config.strict_fields import Origin, convert_strictly
from pykubelet.kubelet.config.v1beta1 import API_VERSION, KIND, KubeletConfiguration
from pykubelet.kubelet.config.value_rules import wrong_values
from pykubelet.models.quantity import to_value

_FIELD_PATH = re.compile(r"(?P<name>\w+)[\w.\[\]-]*: ")
_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(KubeletConfiguration))
_GATES = "featureGates"
_MAX_BYTES = 1 << 20
_MOST_FILES = 256
"""Drop-in files: each costs milliseconds at each reload."""
_SHORTEST_LOG_INTERVAL = 3.0
_ZERO_DURATION = re.compile(r"(0++(h|ms|m|s|us|µs|ns)?)+")
_ZERO_IS_DEFAULT = (
    *("syncFrequency", "fileCheckFrequency", "httpCheckFrequency", "address", "authorization.mode"),
    *("authentication.webhook.cacheTTL", "authorization.webhook.cacheAuthorizedTTL"),
    *("authorization.webhook.cacheUnauthorizedTTL", "registryBurst", "eventBurst", "healthzBindAddress"),
    *("streamingConnectionIdleTimeout", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency"),
    *("nodeLeaseDurationSeconds", "imageMinimumGCAge", "volumeStatsAggPeriod", "cgroupDriver", "cpuManagerPolicy"),
    *("cpuManagerReconcilePeriod", "memoryManagerPolicy", "topologyManagerPolicy", "topologyManagerScope"),
    *("runtimeRequestTimeout", "hairpinMode", "maxPods", "maxOpenFiles", "contentType", "kubeAPIBurst"),
    *("evictionPressureTransitionPeriod", "containerLogMaxSize", "configMapAndSecretChangeDetectionStrategy"),
    *("volumePluginDir", "memoryReservationPolicy", "podLogsDir", "imagePullCredentialsVerificationPolicy"),
)
"""Fields in which a zero value means the default, as in the Go kubelet, except ``port``, which 0 turns off."""


def load_configuration(
    file: Path | None, drop_in: Path | None = None, flags: Mapping[str, object] | None = None
) -> KubeletConfiguration:
    """Load the configuration of ``file``, overridden by the ``*.conf`` files in and below the drop-in directory in
    the order of their paths, overridden by ``flags``, by field path (``authentication.anonymous.enabled``).

    Without a file: the defaults. Raises Invalid, which names the files and all invalid fields; Transient: a file
    cannot be read for the moment.
    """
    layers = configuration_files(file, drop_in)
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    for path in layers:
        data = _bytes(path)
        merged = _merge(merged, _read(path, data))
        places |= {field: f"{path}:{line}:{column}" for field, (line, column) in field_places(data).items()}
    for field, value in (flags or {}).items():
        # As upstream, gates of the files stay, and other maps are replaced.
        merged = _merge(merged, {field: value}) if field == _GATES else _with(merged, field.split("."), value)
    origin = ", ".join([*map(str, layers), *(["flags"] if flags else [])]) or "defaults"
    return _decode(merged, Origin(origin, places))


def located(error: Invalid, file: Path | None, drop_in: Path | None) -> Invalid:
    """Return an error whose message begins with a field, with the place of the field in the files. Blocks.

    An error about anything else, or about a field that no file sets, is returned as it is.
    """
    field = _FIELD_PATH.match(str(error))
    if field is None or field["name"] not in _NAMES:
        return error
    places: dict[str, str] = {}
    try:
        for path in configuration_files(file, drop_in):
            places |= {name: f"{path}:{line}:{column}" for name, (line, column) in field_places(_bytes(path)).items()}
    except (PykubeletError, OSError):
        return error  # the files have changed meanwhile
    found = Origin("", places).error([str(error)])
    return error if str(found).startswith(": ") else found


def configuration_files(file: Path | None, drop_in: Path | None) -> list[Path]:
    """Return the files of the configuration in the order in which they are laid over each other.

    The directories in which ConfigMap volumes keep their versions (``..2026_01_31``) are left out: links lead to the
    files of the present one. Raises Invalid if the drop-in directory cannot be listed or has too many files; Transient:
    it cannot be listed for the moment.
    """
    layers = [file] if file else []
    if drop_in is None:
        return layers
    if not drop_in.is_dir():
        raise Invalid(f"{drop_in}: the configuration drop-in directory does not exist; create it or drop the flag")
    try:
        found = [path for path in drop_in.rglob("*.conf") if path.is_file()]
    except OSError as error:
        kind = Transient if error.errno in PASSING else Invalid
        raise kind(f"{drop_in}: the drop-in files cannot be listed: {error.strerror}") from error
    except RecursionError as error:
        raise Invalid(f"{drop_in}: directories are nested too deeply; name a directory with files only") from error
    found = [path for path in found if not _is_version(path.relative_to(drop_in))]
    if len(found) > _MOST_FILES:
        raise Invalid(f"{drop_in}: has {len(found)} drop-in files, at most {_MOST_FILES} are read; merge some of them")
    return [*layers, *sorted(found)]


def _is_version(path: Path) -> bool:
    return any(part.startswith("..") for part in path.parts)


def check_configuration(config: KubeletConfiguration) -> None:
    """Check the rules that concern several fields. Raises Invalid, which names all invalid fields."""
    wrong = list(_wrong(config))
    if wrong:
        raise Invalid("; ".join(wrong))


def _decode(document: dict[str, Any], origin: Origin) -> KubeletConfiguration:
    """Convert plain values to a configuration. Raises Invalid, which names all invalid fields and their places."""
    config = convert_strictly(_defaulted(document), KubeletConfiguration, origin)
    wrong = list(_wrong(config))
    if wrong:
        raise origin.error(wrong)
    return config


def _defaulted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the fields whose zero value means the default.

    Programs that write the file, such as kubeadm, write all durations, with ``0s`` for those that are not set.
    """
    found = document
    for field in _ZERO_IS_DEFAULT:
        found = _without_zero(found, field.split("."))
    if "nodeStatusReportFrequency" not in found and "nodeStatusUpdateFrequency" in found:
        found = {**found, "nodeStatusReportFrequency": found["nodeStatusUpdateFrequency"]}
    return found


def _without_zero(document: dict[str, Any], path: list[str]) -> dict[str, Any]:
    name, *rest = path
    value = document.get(name)
    if rest:
        return {**document, name: _without_zero(value, rest)} if isinstance(value, dict) else document
    zero = value in ("", 0) or (isinstance(value, str) and _ZERO_DURATION.fullmatch(value) is not None)
    return {key: each for key, each in document.items() if key != name} if zero and value is not False else document


def _bytes(path: Path) -> bytes:
    try:
        data = read_regular(str(path), _MAX_BYTES + 1)  # never waits for a pipe, and never reads a device
    except PykubeletError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in PASSING:
            raise Transient(f"{path}: {error}") from error
        raise Invalid(f"{path}: {error}; name a file that the agent can read") from error
    if len(data) > _MAX_BYTES:
        raise Invalid(f"{path}: larger than 1 MiB, which no configuration needs")
    return data


def _read(path: Path, data: bytes) -> dict[str, Any]:
    try:
        document = read_yaml(data)
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{path}: must be one object of kind {KIND}")
    for field, value in (("kind", KIND), ("apiVersion", API_VERSION)):
        if document.get(field) != value:
            raise Invalid(f"{path}: {field} is {document.get(field)!r}, must be {value}")
    return {str(key): value for key, value in document.items() if value is not None}


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _with(base: dict[str, Any], path: list[str], value: object) -> dict[str, Any]:
    """Return the document with one field set."""
    if len(path) == 1:
        return {**base, path[0]: value}
    inner = base.get(path[0])
    return {**base, path[0]: _with(inner if isinstance(inner, dict) else {}, path[1:], value)}


def _wrong(config: KubeletConfiguration) -> Iterator[str]:
    """Yield the violations of rules that types do not express."""
    for field, value in _durations(config):
        try:
            seconds = parse_duration(value)
        except Invalid as error:
            yield f"{field}: {error}"
            continue
        if seconds < 0:
            yield f"{field}: must not be negative"
    for name, field in (("healthz_port", "healthzPort"), ("port", "port"), ("read_only_port", "readOnlyPort")):
        if not 0 <= getattr(config, name) <= 65535:
            yield f"{field}: must be a port number from 0 (off) to 65535"
    yield from wrong_gates(config.feature_gates)
    yield from wrong_values(config)
    yield from wrong_node_fields(config)
    yield from _wrong_server(config)
    yield from _wrong_log_rotation(config)
    yield from _wrong_crash_loop(config)
    yield from _wrong_image_gc(config)
    yield from wrong_verification(config)
    yield from _wrong_shutdown(config)
    yield from _wrong_tracing(config)
    if config.cgroup_driver not in ("cgroupfs", "systemd"):
        yield f"cgroupDriver: {config.cgroup_driver!r} is not known; use cgroupfs or systemd"
    if config.max_parallel_image_pulls is not None and config.max_parallel_image_pulls < 1:
        yield "maxParallelImagePulls: must be at least 1"
    if config.serialize_image_pulls and (config.max_parallel_image_pulls or 1) > 1:
        yield "maxParallelImagePulls: cannot be over 1 while serializeImagePulls is true"
    if config.memory_swap.swap_behavior not in ("", "NoSwap", "LimitedSwap"):
        yield f"memorySwap.swapBehavior: {config.memory_swap.swap_behavior!r} is not known; use NoSwap or LimitedSwap"


def _wrong_server(config: KubeletConfiguration) -> Iterator[str]:
    try:
        ipaddress.ip_address(config.address)
    except ValueError:
        yield f"address: {config.address!r} is not an IP address"
    try:
        ipaddress.ip_address(config.healthz_bind_address.replace("localhost", "127.0.0.1"))
    except ValueError:
        yield f"healthzBindAddress: {config.healthz_bind_address!r} is not an IP address"
    if config.port and config.port == config.read_only_port:
        yield "readOnlyPort: must differ from port"
    if bool(config.tls_cert_file) != bool(config.tls_private_key_file):
        yield "tlsPrivateKeyFile: must be set together with tlsCertFile"
    if config.authorization.mode not in ("AlwaysAllow", "Webhook"):
        yield f"authorization.mode: {config.authorization.mode!r} is not known; use Webhook or AlwaysAllow"


def _wrong_tracing(config: KubeletConfiguration) -> Iterator[str]:
    if config.tracing is not None:
        try:
            trace_settings(config.tracing.endpoint, config.tracing.sampling_rate_per_million)
        except Invalid as error:
            yield f"tracing.{error}"


def _wrong_crash_loop(config: KubeletConfiguration) -> Iterator[str]:
    """KEP-4603: the longest back-off is 1 s to 300 s."""
    try:
        longest = parse_duration(config.crash_loop_back_off.max_container_restart_period)
    except Invalid:
        return  # reported with the other durations
    field, gate = "crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax"
    if not gate_is_on(config.feature_gates, gate) and longest != 300:
        yield f"{field}: requires the feature gate {gate}, which featureGates switches off"
    elif not 1 <= longest <= 300:
        yield f"{field}: must be from 1s to 300s"


def _wrong_shutdown(config: KubeletConfiguration) -> Iterator[str]:
    """The rules of the Go kubelet, and those of KEP-2712 that it leaves out: no negative or repeated entries."""
    try:
        total = parse_duration(config.shutdown_grace_period)
        critical = parse_duration(config.shutdown_grace_period_critical_pods)
    except Invalid:
        return  # reported with the other durations
    if critical > total:
        yield "shutdownGracePeriodCriticalPods: must be <= shutdownGracePeriod, of which it is a part"
    for field, seconds in (("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)):
        if 0 < seconds < 1:
            yield f"{field}: must be either zero or otherwise >= 1 sec"
    entries = config.shutdown_grace_period_by_pod_priority
    if entries and (total > 0 or critical > 0):
        yield (
            "shutdownGracePeriodByPodPriority: cannot specify both shutdownGracePeriodByPodPriority and "
            "shutdownGracePeriod at the same time"
        )
    for index, entry in enumerate(entries):
        if entry.shutdown_grace_period_seconds < 0:
            yield f"shutdownGracePeriodByPodPriority[{index}].shutdownGracePeriodSeconds: must not be negative"
        if any(entry.priority == other.priority for other in entries[:index]):
            yield f"shutdownGracePeriodByPodPriority[{index}].priority: {entry.priority} is there already"


def _wrong_image_gc(config: KubeletConfiguration) -> Iterator[str]:
    high, low = config.image_gc_high_threshold_percent, config.image_gc_low_threshold_percent
    for field, value in (("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)):
        if not 0 <= value <= 100:
            yield f"{field}: must be a percentage from 0 to 100"
    if low >= high:
        yield "imageGCLowThresholdPercent: must be less than imageGCHighThresholdPercent"
    try:
        oldest, youngest = parse_duration(config.image_maximum_gc_age), parse_duration(config.image_minimum_gc_age)
    except Invalid:
        return  # reported with the other durations
    if 0 < oldest <= youngest:
        yield "imageMaximumGCAge: must be greater than imageMinimumGCAge, or 0s for no limit"


def _wrong_log_rotation(config: KubeletConfiguration) -> Iterator[str]:
    try:
        to_value(config.container_log_max_size)
    except Invalid as error:
        yield f"containerLogMaxSize: {error}"
    if config.container_log_max_files <= 1:
        yield "containerLogMaxFiles: must be at least 2: the log and the one before it"
    if config.container_log_max_workers < 1:
        yield "containerLogMaxWorkers: must be at least 1"
    try:
        interval = parse_duration(config.container_log_monitor_interval)
    except Invalid:
        return  # reported with the other durations
    if interval < _SHORTEST_LOG_INTERVAL:
        yield "containerLogMonitorInterval: must be at least 3s"


def _durations(config: msgspec.Struct, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (field, value) of the durations, also of nested objects: text fields whose default is a duration."""
    for field in msgspec.structs.fields(type(config)):
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct):
            yield from _durations(value, f"{path}{field.encode_name}.")
        elif isinstance(field.default, str) and field.default[:1].isdigit() and field.default[-1] in "smh":
            yield f"{path}{field.encode_name}", value
