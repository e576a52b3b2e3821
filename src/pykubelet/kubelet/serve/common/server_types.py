"""Views that the local API returns, and options that it reads from requests."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.base.units import Bytes


class ImageView(Struct, frozen=True, kw_only=True, rename="camel"):
    """An image that the runtime has."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size: Bytes = Bytes(0)
    pinned: bool = False
    """The runtime never removes it as unused."""


class PullView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A running pull of an image."""

    image: str
    """Full reference."""
    phase: str
    """``resolving``, ``downloading``, ``unpacking``, …"""
    done: Bytes = Bytes(0)
    total: Bytes = Bytes(0)
    """Zero while it is unknown."""


class ProblemView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A present problem that a person may want to fix."""

    subject: str
    """The object that has the problem: a file, a pod (``NAMESPACE/NAME``) or the runtime."""
    reason: str
    """One CamelCase word."""
    message: str
    """Text of the problem, with the remedy."""
    since: float = 0.0
    """Unix time."""


class ManifestView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of the manifest directory, as the agent has read it."""

    file: str
    objects: tuple[str, ...] = ()
    """The effective objects as ``KIND NAMESPACE/NAME``."""
    kept: tuple[str, ...] = ()
    """Those of an earlier version, since the present one has problems."""
    problems: tuple[str, ...] = ()


class ManifestsView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Sources of the agent's manifests, with the manifests read."""

    path: str = ""
    """The manifest directory or file, as the agent names it; empty: it reads no such path."""
    node_name: str = ""
    items: tuple[ManifestView, ...] = ()


class VersionView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Versions and names of the agent and its runtime."""

    agent: str
    kubernetes: str = ""
    """The Kubernetes version that the agent implements (``v1.36.0``)."""
    runtime_name: str = ""
    runtime_version: str = ""
    runtime_endpoint: str = ""
    """The CRI socket of the runtime, as ``unix:///…``."""
    image_endpoint: str = ""
    """The CRI socket of the image service, which may be another one."""
    node_name: str = ""


class LogStreams(StrEnum):
    """Streams of a container to read; values of the query parameter ``stream``."""

    ALL = "All"
    STDOUT = "Stdout"
    STDERR = "Stderr"


class LogOptions(Struct, frozen=True):
    """Selection of a part of a log, as in the API's PodLogOptions."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_ns: int | None = None
    """Unix nanoseconds; earlier lines are left out."""
    limit_bytes: int | None = None
    streams: LogStreams = LogStreams.ALL
