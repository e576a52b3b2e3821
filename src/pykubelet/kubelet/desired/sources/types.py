"""What the sources of manifests work with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.types import Manifest, ManifestObject, ObjectKey, Problem
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

RESCAN_SECONDS: Final = 20.0
"""How often a directory or URL is looked at without a cause, as in the reference."""

RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 20.0
HTTP_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class FileSourceConfig:
    """A directory of manifests, or a single one."""

    path: Path
    node_name: str
    rescan: Seconds = RESCAN_SECONDS
    backup: Path | None = None
    """A directory for copies of the last good manifests, so that a broken one survives a restart; None: no copies."""


@dataclass(frozen=True, slots=True)
class HttpSourceConfig:
    """A URL that gives a manifest."""

    url: str
    node_name: str
    headers: tuple[tuple[str, str], ...] = ()
    period: Seconds = RESCAN_SECONDS
    timeout: Seconds = HTTP_TIMEOUT_SECONDS
    backup: Path | None = None
    """As for files."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What is known of one manifest: the version last read, and the objects in force.

    They differ while the last version has problems: then objects of earlier versions stay in force.
    """

    manifest: Manifest
    digest: str
    """Hash of the bytes last read; empty if they could not be read."""
    wanted: tuple[ManifestObject, ...] = ()
    kept: frozenset[ObjectKey] = frozenset()
    """Those in ``wanted`` that an earlier version gave."""


@dataclass(frozen=True, slots=True)
class ManifestState:
    """One manifest for people: what it gives now and what is wrong with it."""

    source: Source
    origin: str
    objects: tuple[ObjectKey, ...] = ()
    kept: tuple[ObjectKey, ...] = ()
    """Objects in force from an earlier version, since the last one has problems."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceContent:
    """Everything that one source wants now.

    With ``read`` false the source could not be read: only ``states`` tells something, the rest stays as it was.
    """

    source: Source
    pods: tuple[Pod, ...] = ()
    objects: tuple[ConfigMap | Secret, ...] = ()
    states: tuple[ManifestState, ...] = ()
    read: bool = True
