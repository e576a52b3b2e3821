"""Configuration, records and states of the sources of manifests."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import Manifest, ManifestObject, ObjectKey, Problem
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

RESCAN_SECONDS: Final = 20.0
"""Interval of the periodic reads of a directory or URL, as upstream."""

RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 20.0
HTTP_TIMEOUT_SECONDS: Final = 10.0


class FileSourceConfig(Struct, frozen=True):
    """Configuration of a manifest directory or a single manifest."""

    path: Path
    node_name: str
    rescan: Seconds = RESCAN_SECONDS
    backup: Path | None = None
    """Directory for copies of the last valid manifests, for restarts with a broken manifest; None: no copies."""


class HttpSourceConfig(Struct, frozen=True):
    """Configuration of a URL that returns a manifest."""

    url: str
    node_name: str
    headers: tuple[tuple[str, str], ...] = ()
    period: Seconds = RESCAN_SECONDS
    timeout: Seconds = HTTP_TIMEOUT_SECONDS
    backup: Path | None = None
    """Directory for a copy of the last valid manifest; None: no copy."""


class SourcePeriods(Struct, frozen=True):
    """Periods of the reads of sources without news of a change."""

    files: Seconds = RESCAN_SECONDS
    http: Seconds = RESCAN_SECONDS


class FileRecord(Struct, frozen=True):
    """A manifest: the version last read, and the effective objects.

    They differ while the last version has problems: then objects of earlier versions stay effective.
    """

    manifest: Manifest
    digest: str
    """Hash of the bytes last read; empty if the last read failed."""
    wanted: tuple[ManifestObject, ...] = ()
    kept: frozenset[ObjectKey] = frozenset()
    """The keys of objects in ``wanted`` from an earlier version."""


class ManifestState(Struct, frozen=True):
    """The state of a manifest, as the CLI shows it: effective objects and problems."""

    source: Source
    origin: str
    objects: tuple[ObjectKey, ...] = ()
    kept: tuple[ObjectKey, ...] = ()
    """Effective objects of an earlier version, since the last one has problems."""
    problems: tuple[Problem, ...] = ()


class SourceContent(Struct, frozen=True):
    """The full content of a source.

    ``read`` false: the source could not be read, so only ``states`` is meaningful, and the rest stays as it was.
    """

    source: Source
    pods: tuple[Pod, ...] = ()
    objects: tuple[ConfigMap | Secret, ...] = ()
    states: tuple[ManifestState, ...] = ()
    read: bool = True
