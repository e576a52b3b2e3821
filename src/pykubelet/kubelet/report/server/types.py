"""Values that the server shows or reads from requests."""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from pykubelet.base.units import Bytes


class ImageView(Struct, frozen=True, kw_only=True, rename="camel"):
    """An image of the runtime."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size: Bytes = Bytes(0)
    pinned: bool = False
    """The runtime keeps it whatever happens."""


class ProblemView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that is wrong now and that a person may want to mend."""

    subject: str
    """A file, a pod (``NAMESPACE/NAME``), the runtime."""
    reason: str
    """One word."""
    message: str
    """What is wrong and what to do."""
    since: float = 0.0
    """Unix time."""


class JournalView(Struct, frozen=True, kw_only=True, rename="camel"):
    """One decision of the agent about a pod."""

    at: float
    """Unix time."""
    message: str
    fields: dict[str, str] = {}


class ObjectView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A ConfigMap or Secret that manifests define; never its content."""

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...] = ()
    source: str = ""
    """The file it comes from."""


class VersionView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who is running."""

    agent: str
    kubernetes: str = ""
    """The Kubernetes version whose kubelet this one stands for (``v1.36.0``)."""
    runtime_name: str = ""
    runtime_version: str = ""
    node_name: str = ""


class LogStreams(StrEnum):
    """Which of a container's streams to read; values of the query parameter ``stream``."""

    ALL = "All"
    STDOUT = "Stdout"
    STDERR = "Stderr"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a log to read, as in the API's PodLogOptions."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_ns: int | None = None
    """Unix nanoseconds; only lines from then on."""
    limit_bytes: int | None = None
    streams: LogStreams = LogStreams.ALL


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """An exec or attach: of what, and which streams."""

    container: str = ""
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
