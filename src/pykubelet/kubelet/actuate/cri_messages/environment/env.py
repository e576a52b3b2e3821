"""Environment variables of a container, from all sources in the pod spec.

Order: `envFrom` (keys sorted), then `env` as declared, then service variables. A later entry replaces an earlier one of
the same name, but service variables never replace the container's own. Values from Secrets need not be UTF-8: such
bytes are represented by surrogate escapes.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import TypeVar

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.expand import MOST_EXPANDED, expand
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvContext, EnvFile, container_error
from pykubelet.kubelet.actuate.cri_messages.environment.downward import field_ref_value, resource_value
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    Pod,
    SecretKeySelector,
)

T = TypeVar("T")


def container_environment(pod: Pod, container: AnyContainer, context: EnvContext) -> dict[str, str]:
    """Build the container's variables in order.

    Raises ConfigError if a required object or key is missing, a variable is invalid, or all together are too long.
    """
    env: dict[str, str] = {}
    room = _Room()
    for source in container.env_from:
        found = _all_of(pod, source, context)
        room.take(found)
        env.update(found)
    known = ChainMap(env, dict(context.services))
    for variable in container.env:
        value = _value(pod, container, variable, context, known)
        if value is not None:
            room.take({variable.name: value})
            env[variable.name] = value
    for name, value in context.services.items():
        env.setdefault(name, value)
    for name, value in env.items():
        _check(name, value)
    return env


class _Room:
    """Remaining space for variables: sources may be named many times, and values may be made of others."""

    def __init__(self) -> None:
        self._left = MOST_EXPANDED

    def take(self, found: Mapping[str, str]) -> None:
        self._left -= sum(len(name) + len(value) for name, value in found.items())
        if self._left < 0:
            raise container_error(
                f"the environment variables have more than {MOST_EXPANDED} characters, which no process can have"
            )


def env_files(container: AnyContainer) -> dict[EnvFile, set[str]]:
    """Files that the container's `fileKeyRef`s refer to, and the variables there; for ``EnvContext.files``."""
    found: dict[EnvFile, set[str]] = {}
    for variable in container.env:
        ref = variable.value_from.file_key_ref if variable.value_from else None
        if ref:
            found.setdefault(EnvFile(ref.volume_name, ref.path), set()).add(ref.key)
    return found


def encode_value(value: str) -> bytes:
    """Encode a variable's value; surrogate escapes become the original bytes."""
    return value.encode("utf-8", "surrogateescape")


def _value(
    pod: Pod, container: AnyContainer, variable: EnvVar, context: EnvContext, known: Mapping[str, str]
) -> str | None:
    """Value of one variable; None to leave it out, if its source is optional and missing."""
    if variable.value:
        try:
            return expand(variable.value, known)
        except Invalid as error:
            raise container_error(f'environment variable "{variable.name}": {error}') from error
    match variable.value_from:
        case EnvVarSource(field_ref=ref) if ref:
            return field_ref_value(pod, ref, context.downward)
        case EnvVarSource(resource_field_ref=ref) if ref:
            return resource_value(pod, container, ref, context.downward)
        case EnvVarSource(config_map_key_ref=ref) if ref:
            return _config_map_key(pod, ref, context)
        case EnvVarSource(secret_key_ref=ref) if ref:
            return _secret_key(pod, ref, context)
        case EnvVarSource(file_key_ref=ref) if ref:
            return _file_key(ref, context)
        case _:
            return ""


def _all_of(pod: Pod, source: EnvFromSource, context: EnvContext) -> dict[str, str]:
    namespace = pod.metadata.namespace
    values: Mapping[str, str | bytes] = {}
    if source.config_map_ref:
        ref = source.config_map_ref
        config_map = _get(context.objects.get_config_map, "configmap", namespace, ref.name, ref.optional)
        values = config_map.data if config_map else {}
    elif source.secret_ref:
        secret_ref = source.secret_ref
        secret = _get(context.objects.get_secret, "secret", namespace, secret_ref.name, secret_ref.optional)
        values = secret.data if secret else {}
    return {source.prefix + key: _text(values[key]) for key in sorted(values)}


def _config_map_key(pod: Pod, ref: ConfigMapKeySelector, context: EnvContext) -> str | None:
    namespace = pod.metadata.namespace
    config_map = _get(context.objects.get_config_map, "configmap", namespace, ref.name, ref.optional)
    if config_map is None:
        return None
    return _key(config_map.data, ref.key, ref.optional, f"ConfigMap {namespace}/{ref.name}")


def _secret_key(pod: Pod, ref: SecretKeySelector, context: EnvContext) -> str | None:
    namespace = pod.metadata.namespace
    secret = _get(context.objects.get_secret, "secret", namespace, ref.name, ref.optional)
    if secret is None:
        return None
    return _key(secret.data, ref.key, ref.optional, f"Secret {namespace}/{ref.name}")


def _file_key(ref: FileKeySelector, context: EnvContext) -> str | None:
    file = context.files.get(EnvFile(ref.volume_name, ref.path))
    if file is None:
        if ref.optional:
            return None
        raise container_error(
            f'cannot read the file "{ref.path}" of the volume "{ref.volume_name}" referenced by FileKeyRef'
        )
    try:
        value = file.value(ref.key)
    except Invalid as error:
        raise container_error(
            f'couldn\'t parse env file "{ref.path}" of volume "{ref.volume_name}": {error}'
        ) from error
    if value or ref.optional:
        return value or None
    raise container_error(f'environment variable key "{ref.key}" not found in file "{ref.path}"')


def _get(read: Callable[[str, str], T], kind: str, namespace: str, name: str, optional: bool | None) -> T | None:
    try:
        return read(namespace, name)
    except NotFound as error:
        if optional:
            return None
        raise container_error(f'{kind} "{name}" not found') from error


def _key(values: Mapping[str, str] | Mapping[str, bytes], key: str, optional: bool | None, where: str) -> str | None:
    value = values.get(key)
    if value is not None:
        return _text(value)
    if optional:
        return None
    raise container_error(f"couldn't find key {key} in {where}")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def _check(name: str, value: str) -> None:
    """Raise ConfigError for a variable that no process can have; the runtime's error would be less clear."""
    if not name or "=" in name or "\0" in name:
        raise container_error(f'"{name}" cannot be the name of an environment variable')
    if "\0" in value:
        raise container_error(
            f'the value of environment variable "{name}" has a NUL byte; mount its source as a volume instead'
        )
