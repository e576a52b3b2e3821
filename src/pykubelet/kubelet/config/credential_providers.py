"""CredentialProviderConfig, ``kubelet.config.k8s.io``: the plugins that provide registry credentials (KEP-2133).

The files are read once, at the start, by ``load_credential_providers``; ``actuate/images`` runs the plugins. Rules:
``pkg/credentialprovider/plugin/config.go`` of the Go kubelet.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import field_places, read_yaml
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import parse_duration
from pykubelet.kubelet.config.strict_fields import Origin, convert_strictly

KIND: Final = "CredentialProviderConfig"
_GROUP: Final = "kubelet.config.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha1")
_PLUGIN_V1: Final = "credentialprovider.kubelet.k8s.io/v1"
_PLUGIN_VERSIONS: Final = (_PLUGIN_V1, f"{_PLUGIN_V1}beta1", f"{_PLUGIN_V1}alpha1")
_CACHE_TYPES: Final = ("ServiceAccount", "Token")
_MAX_BYTES: Final = 1 << 20
_QUALIFIED: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z0-9](?:[-_.a-z0-9]{0,61}[a-z0-9])?")
_HOST: Final = re.compile(r"[^\s/?#\\%<>\"^`{}|]+")


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the objects in the file."""


class ExecEnvVar(_Object, frozen=True):
    """An environment variable of a plugin."""

    name: str
    value: str = ""


class TokenAttributes(_Object, frozen=True):
    """Attributes of the tokens of pods' service accounts that a plugin gets (KEP-4412)."""

    service_account_token_audience: str = ""
    cache_type: str = ""
    """``ServiceAccount`` or ``Token``: what the cached credentials belong to."""
    require_service_account: bool | None = None
    required_service_account_annotation_keys: tuple[str, ...] = ()
    optional_service_account_annotation_keys: tuple[str, ...] = ()


class CredentialProvider(_Object, frozen=True):
    """Configuration of one plugin."""

    name: str = ""
    """The name of its executable in the plugin directory."""
    match_images: tuple[str, ...] = ()
    default_cache_duration: str | None = None
    """A Go duration."""
    api_version: str = ""
    """The version of the protocol that it speaks."""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnvVar, ...] = ()
    token_attributes: TokenAttributes | None = None


class CredentialProviderConfig(_Object, frozen=True):
    """Content of one configuration file."""

    kind: str
    api_version: str
    providers: tuple[CredentialProvider, ...] = ()


class CredentialProviders(Struct, frozen=True):
    """The plugins of all files, in their order."""

    bin_dir: Path
    """Directory of their executables."""
    providers: tuple[CredentialProvider, ...]
    config_hash: str
    """``sha256:HEX`` of the files, for the metric ``kubelet_credential_provider_config_info``."""


def load_credential_providers(config: str, bin_dir: str) -> CredentialProviders | None:
    """Load the file, or the ``*.json``, ``*.yaml`` and ``*.yml`` files of the directory, that ``config`` names.

    None if both paths are empty. Raises Invalid, which names the file, the fields and the remedy. Blocks.
    """
    if not config and not bin_dir:
        return None
    for flag, value in (("config", config), ("bin-dir", bin_dir)):
        if not value:
            raise Invalid(f"--image-credential-provider-{flag}: must be set together with the other of these flags")
    if not Path(bin_dir).is_dir():
        raise Invalid(f"--image-credential-provider-bin-dir: plugin binary directory {bin_dir} did not exist")
    providers: list[CredentialProvider] = []
    digest = hashlib.sha256()
    for path in _files(Path(config)):
        data = _bytes(path)
        digest.update(len(data).to_bytes(8, "big") + data)
        found, origin = _read(path, data)
        wrong = list(_wrong(found, Path(bin_dir), {each.name for each in providers}))
        if wrong:
            raise origin.error(wrong)
        providers += found.providers
    return CredentialProviders(Path(bin_dir), tuple(providers), f"sha256:{digest.hexdigest()}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        names = sorted(each for each in path.iterdir() if each.suffix in (".json", ".yaml", ".yml"))
    except OSError as error:
        raise Invalid(f"{path}: unable to read directory: {error.strerror}") from error
    found = [each for each in names if not each.is_dir()]
    if not found:
        raise Invalid(f"{path}: no configuration files found in directory; add a *.yaml, *.yml or *.json file")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path, _MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise Invalid(f"{path}: larger than 1 MiB, which no configuration needs") from error
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error


def _read(path: Path, data: bytes) -> tuple[CredentialProviderConfig, Origin]:
    try:
        document = read_yaml(data)
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{path}: must be one object of kind {KIND}")
    if document.get("kind") != KIND:
        raise Invalid(f"{path}: kind is {document.get('kind')!r}, must be {KIND}")
    if document.get("apiVersion") not in _VERSIONS:
        raise Invalid(f"{path}: apiVersion is {document.get('apiVersion')!r}, must be one of {', '.join(_VERSIONS)}")
    places = {field: f"{path}:{line}:{column}" for field, (line, column) in field_places(data).items()}
    origin = Origin(str(path), places)
    return convert_strictly(_without_nulls(document), CredentialProviderConfig, origin), origin


def _without_nulls(value: Any) -> Any:
    """The values without null fields, which mean the default."""
    if isinstance(value, dict):
        return {str(key): _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _wrong(config: CredentialProviderConfig, bin_dir: Path, names: set[str]) -> Iterator[str]:
    if not config.providers:
        yield "providers: at least 1 item in plugins is required"
    for index, provider in enumerate(config.providers):
        where = f"providers[{index}]"
        yield from (f"{where}.{each}" for each in _wrong_provider(provider, config.api_version))
        if not provider.name or "/" in provider.name or " " in provider.name or provider.name in (".", ".."):
            yield f"{where}.name: {provider.name!r} must be the name of an executable, without '/' and spaces"
        elif provider.name in names:
            yield f"{where}.name: duplicate provider name {provider.name!r} found in configuration file(s)"
        elif not os.access(bin_dir / provider.name, os.X_OK) or (bin_dir / provider.name).is_dir():
            yield f"{where}.name: {bin_dir / provider.name} is not an executable file; install the plugin there"
        names.add(provider.name)


def _wrong_provider(provider: CredentialProvider, version: str) -> Iterator[str]:
    if provider.api_version not in _PLUGIN_VERSIONS:
        yield f"apiVersion: {provider.api_version!r} is not supported; use one of {', '.join(_PLUGIN_VERSIONS)}"
    if not provider.match_images:
        yield "matchImages: at least 1 item in matchImages is required"
    for index, pattern in enumerate(provider.match_images):
        if not _is_location(pattern):
            yield f"matchImages[{index}]: match image is invalid: {pattern!r} must be HOST[:PORT][/PATH]"
    if provider.default_cache_duration is None:
        yield "defaultCacheDuration: required; for example 12h, or 0s for no cache"
    else:
        try:
            if parse_duration(provider.default_cache_duration) < 0:
                yield "defaultCacheDuration: must be greater than or equal to 0"
        except Invalid as error:
            yield f"defaultCacheDuration: {error}"
    if provider.token_attributes is not None:
        if not version.endswith("/v1"):
            yield f"tokenAttributes: unknown field in {version}; use apiVersion {_VERSIONS[0]}"
        if provider.api_version != _PLUGIN_V1:
            yield f"tokenAttributes: is only supported for {_PLUGIN_V1} API version"
        yield from (f"tokenAttributes{each}" for each in _wrong_attributes(provider.token_attributes))


def _wrong_attributes(found: TokenAttributes) -> Iterator[str]:
    if not found.service_account_token_audience:
        yield ".serviceAccountTokenAudience: required"
    if found.require_service_account is None:
        yield ".requireServiceAccount: required; true or false"
    required, optional = found.required_service_account_annotation_keys, found.optional_service_account_annotation_keys
    if found.require_service_account is False and required:
        yield (
            ".requiredServiceAccountAnnotationKeys: "
            "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"
        )
    yield from (f".requiredServiceAccountAnnotationKeys{each}" for each in _wrong_keys(required))
    yield from (f".optionalServiceAccountAnnotationKeys{each}" for each in _wrong_keys(optional))
    if both := sorted(set(required) & set(optional)):
        yield f": annotation keys cannot be both required and optional: {', '.join(both)}"
    if found.cache_type not in _CACHE_TYPES:
        yield f".cacheType: {found.cache_type!r} is not supported; use one of {', '.join(_CACHE_TYPES)}"


def _wrong_keys(keys: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if not _QUALIFIED.fullmatch(key.lower()):
            yield f"[{index}]: {key!r} is not an annotation key; write PREFIX/NAME as in example.com/name"
        elif key in seen:
            yield f"[{index}]: {key!r} is there already"
        seen.add(key)


def _is_location(text: str) -> bool:
    """Whether a URL without scheme can be parsed: host, optional port and path."""
    try:
        parts = urlsplit(f"https://{text}")
        return bool(_HOST.fullmatch(parts.netloc)) and (parts.port is None or parts.port >= 0)
    except ValueError:
        return False
