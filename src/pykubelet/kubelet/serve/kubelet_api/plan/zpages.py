"""The pages /statusz and /flagz (KEP-4827, KEP-4828), as text for people or as objects. Pure.

Kinds, fields and media types are those of upstream's ``config.k8s.io/v1beta1``.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds

API_VERSION: Final = "config.k8s.io/v1beta1"
JSON: Final = "application/json"
YAML: Final = "application/yaml"
TEXT: Final = "text/plain"
_HEAD: Final = "\nkubelet {page}\nWarning: this page is for people; its form may change with every version.\n"


class Facts(Struct, frozen=True):
    """The content of /statusz."""

    started: Seconds
    now: Seconds
    version: str
    platform: str
    """Version of the language; the Go kubelet shows Go's version here."""
    paths: Sequence[str]


def wanted_form(accept: str, kind: str) -> str | None:
    """Return the media type for an ``Accept`` header; None: none of its types is available (406).

    Objects need their kind spelled out (``;g=config.k8s.io;v=v1beta1;as=Statusz``), as in the Go kubelet.
    """
    if not accept.strip():
        return TEXT
    for each in accept.split(","):
        media, *rest = (part.strip() for part in each.split(";"))
        named = dict(part.partition("=")[::2] for part in rest)
        target = {"g": "config.k8s.io", "v": "v1beta1", "as": kind}
        if media in (JSON, YAML) and target.items() <= named.items():
            return media
        if media in (TEXT, "text/*", "*/*") and "as" not in named:
            return TEXT
    return None


def roots(paths: Sequence[str]) -> list[str]:
    """Return the first segments of the served paths, sorted."""
    return sorted({"/" + path.split("/")[1] for path in paths if path.count("/") and path.split("/")[1]})


def status_object(facts: Facts) -> dict[str, object]:
    """Return /statusz as an object."""
    return {
        "kind": "Statusz",
        "apiVersion": API_VERSION,
        "metadata": {"name": "kubelet"},
        "startTime": f"{datetime.fromtimestamp(facts.started, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": _up(facts),
        "goVersion": facts.platform,
        "binaryVersion": facts.version,
        "paths": list(facts.paths),
    }


def status_text(facts: Facts) -> str:
    """Return /statusz as text."""
    up = _up(facts)
    lines = (
        f"Started: {datetime.fromtimestamp(facts.started, UTC):%a %b %d %H:%M:%S UTC %Y}",
        f"Up: {up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
        f"Language: {facts.platform}",
        f"Binary version: {facts.version}",
        f"Paths: {' '.join(facts.paths)}",
    )
    return _HEAD.format(page="statusz") + "\n" + "\n".join(lines) + "\n"


def flags_object(flags: Mapping[str, str]) -> dict[str, object]:
    """Return /flagz as an object."""
    return {"kind": "Flagz", "apiVersion": API_VERSION, "metadata": {"name": "kubelet"}, "flags": dict(flags)}


def flags_text(flags: Mapping[str, str]) -> str:
    """Return /flagz as text."""
    return _HEAD.format(page="flagz") + "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))


def _up(facts: Facts) -> int:
    return max(0, int(facts.now - facts.started))
