"""Loading and validation of the configuration file."""

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pykubelet.base.errors import PASSING, Invalid, Transient
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.documents import has_nul, read_toml, read_yaml
from pykubelet.base.files.path_pattern import path_pattern
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.tracing import trace_settings
from pykubelet.base.units import KIB
from pykubelet.criserver.config.field_errors import field_error
from pykubelet.criserver.config.metrics_address import parse_metrics_address
from pykubelet.criserver.config.settings import Settings
from pykubelet.criserver.types import MAX_NETWORKS

_MAX_BYTES = 1 << 20
_SLOWEST_PULL = 64 * KIB
"""A slower download would run into the time limits of registries."""
_HANDLER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def load_settings(file: Path | None, *, defaults: Mapping[str, object] | None = None, **overrides: object) -> Settings:
    """Load the settings of a file (``.toml``, else YAML); flags override them. A flag that is None was not given.

    ``defaults`` are used for fields that the file does not set. Raises Invalid, which names the file and the field.
    """
    document = {**(defaults or {}), **(read_document(file) if file else {})}
    document |= {key: value for key, value in overrides.items() if value is not None}
    origin = str(file) if file else "flags"
    try:
        settings = convert(document, Settings, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise (field_error(error, Settings, file) if file else Invalid(f"{origin}: {error}")) from error
    for handler, options in settings.handlers.items():
        # It is also the name of a directory.
        if not _HANDLER.fullmatch(handler):
            raise Invalid(
                f"{origin}: handlers: {handler!r} is not a name of letters, digits, '-', '_' and '.'; the program "
                "belongs in its path"
            )
        if options.privileged_without_host_devices_all_devices_allowed and not options.privileged_without_host_devices:
            raise Invalid(
                f"{origin}: handlers.{handler}: privileged_without_host_devices_all_devices_allowed needs "
                "privileged_without_host_devices"
            )
        for patterns in (options.pod_annotations, options.container_annotations):
            try:
                for pattern in patterns:
                    path_pattern(pattern)
            except Invalid as error:
                raise Invalid(f"{origin}: handlers.{handler}: annotation {error}") from error
        _check_networks(options.cni_max_conf_num, f"{origin}: handlers.{handler}: cni_max_conf_num")
        if options.cni_max_conf_num and not options.cni_conf_dir:
            raise Invalid(f"{origin}: handlers.{handler}: cni_max_conf_num needs cni_conf_dir")
    _check_networks(settings.cni.max_conf_num, f"{origin}: cni.max_conf_num")
    if settings.default_handler not in settings.handlers:
        known = ", ".join(sorted(settings.handlers))
        raise Invalid(f"{origin}: default_handler {settings.default_handler!r} is not among the handlers: {known}")
    try:
        parse_metrics_address(settings.metrics_address)
    except Invalid as error:
        raise Invalid(f"{origin}: {error}") from error
    if not 0 <= settings.tracing.sampling_ratio <= 1:
        raise Invalid(f"{origin}: tracing.sampling_ratio: must be from 0 to 1, not {settings.tracing.sampling_ratio}")
    try:
        trace_settings(settings.tracing.endpoint, settings.tracing.per_million)
    except Invalid as error:
        raise Invalid(f"{origin}: tracing.{error}") from error
    if settings.pull_bandwidth and settings.pull_bandwidth < _SLOWEST_PULL:
        raise Invalid(
            f"{origin}: pull_bandwidth: must be 0 for no limit, or at least {_SLOWEST_PULL} bytes per second, not "
            f"{settings.pull_bandwidth}"
        )
    for name, directory in (("root", settings.root), ("run", settings.run)):
        if not directory.is_absolute():
            raise Invalid(f"{origin}: {name} must be an absolute path, not {directory}")
    return settings


def _path(kind: type, value: Any) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def read_document(path: Path) -> dict[str, Any]:
    """Read the table in a file: TOML by its name, else YAML.

    Raises Invalid, which names the file and the cause; Transient: it cannot be read for the moment.
    """
    try:
        data = read_regular(path, _MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise Invalid(f"{path}: larger than 1 MiB, which no configuration needs") from error
        if error.errno in PASSING:
            raise Transient(f"{path}: cannot be read: {error.strerror}") from error
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    try:
        document = read_toml(data) if path.suffix == ".toml" else read_yaml(data) or {}
    except (Invalid, Transient) as error:
        raise type(error)(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{path}: must be one table of settings")
    for field, value in document.items():
        if has_nul(field) or has_nul(value):
            raise Invalid(f"{path}: {field!r}: contains NUL (\\0); remove it")
    return document


def _check_networks(number: int, field: str) -> None:
    if not 0 <= number <= MAX_NETWORKS:
        raise Invalid(f"{field}: must be from 0 to {MAX_NETWORKS}, not {number}")
