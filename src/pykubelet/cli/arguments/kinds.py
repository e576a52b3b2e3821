"""The kinds of objects that ``pykubelet get`` lists: their names, where the agent serves them, and their tables."""

import base64
import binascii
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pykubelet.cli.plan.columns import age, size
from pykubelet.cli.plan.pod_row import pod_row

_PROBLEM_LINE: Final = re.compile(r"(:\d+(?::\d+)?)?: (.*)", re.DOTALL)
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind:
    """One kind of objects: names, API path, selectors and table columns."""

    plural: str
    singular: str
    short: str = ""
    path: str
    headings: tuple[str, ...]
    wide: tuple[str, ...] = ()
    rows: Callable[[Any, bool], Rows]
    """Returns an object's rows without namespace; the second argument asks for the wide cells, too."""
    namespaced: bool = False
    shows_namespace: bool = False
    """The table has the namespace unless one is asked for; others have it only with ``-A``."""
    watchable: bool = False
    selectable: bool = True
    """The agent serves the objects with label and field selectors."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all words for this kind."""
        return tuple(name for name in (self.plural, self.singular, self.short) if name)


def name_of(item: Any) -> str:
    """Return an object's name; for what is no Kubernetes object, what stands for it."""
    if "metadata" in item:
        return str(item["metadata"].get("name", ""))
    names = item.get("repoTags") or item.get("repoDigests") or [item.get("subject") or item.get("id", "")]
    return str(names[0])


def _pod_rows(item: Any, wide: bool) -> Rows:
    row = pod_row(item, time.time())
    cells = (row.name, row.ready, row.status, row.restarts, age(row.age_seconds))
    return [(*cells, row.ip, row.node) if wide else cells]


def _event_rows(item: Any, wide: bool) -> Rows:
    subject = item.get("involvedObject", {})
    name = f"{subject.get('kind', '').lower()}/{subject.get('name', '')}"
    seen = item.get("lastTimestamp") or item["metadata"].get("creationTimestamp")
    cells = (ago(seen), item.get("type", ""), item.get("reason", ""), name, item.get("message", "").replace("\n", " "))
    return [(*cells, str(item.get("count") or 1), subject.get("fieldPath", "")) if wide else cells]


def _image_rows(item: Any, wide: bool) -> Rows:
    """Return a row for each name of the image."""
    names = item.get("repoTags") or item.get("repoDigests") or ["<none>"]
    identity = str(item.get("id", ""))
    shown = identity if wide else identity.removeprefix("sha256:")[:12]
    return [(name, shown, size(int(item.get("size", 0)))) for name in names]


def _node_rows(item: Any, wide: bool) -> Rows:
    meta, status = item["metadata"], item.get("status", {})
    ready = [each.get("status") for each in status.get("conditions", ()) if each.get("type") == "Ready"]
    word = {"True": "Ready", "False": "NotReady"}.get(ready[0], "Unknown") if ready else "Unknown"
    if item.get("spec", {}).get("unschedulable"):
        word += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in meta.get("labels", {}) if key.startswith(prefix))
    info = status.get("nodeInfo", {})
    cells = (
        name_of(item),
        word,
        ",".join(roles) or "<none>",
        ago(meta.get("creationTimestamp")),
        info.get("kubeletVersion", ""),
    )
    if not wide:
        return [cells]
    addresses = {each.get("type"): each.get("address", "") for each in reversed(status.get("addresses", ()))}
    return [
        (
            *cells,
            addresses.get("InternalIP", "<none>"),
            addresses.get("ExternalIP", "<none>"),
            info.get("osImage", "<unknown>"),
            info.get("kernelVersion", "<unknown>"),
            info.get("containerRuntimeVersion", "<unknown>"),
        )
    ]


def _config_map_rows(item: Any, wide: bool) -> Rows:
    texts = {key: len(value.encode()) for key, value in item.get("data", {}).items()}
    sizes = texts | {key: _decoded(value) for key, value in item.get("binaryData", {}).items()}
    return [(name_of(item), str(len(sizes)), *_sizes(sizes, wide))]


def _secret_rows(item: Any, wide: bool) -> Rows:
    sizes = {key: _decoded(value) for key, value in item.get("data", {}).items()}
    return [(name_of(item), item.get("type") or "Opaque", str(len(sizes)), *_sizes(sizes, wide))]


def _sizes(sizes: dict[str, int], wide: bool) -> Sequence[str]:
    return (", ".join(f"{key} {size(count)}" for key, count in sorted(sizes.items())) or "<none>",) if wide else ()


def _decoded(value: str) -> int:
    """Return the size of a value in base64, in bytes."""
    try:
        return len(base64.b64decode(value))
    except binascii.Error:
        return 0


def _problem_rows(item: Any, wide: bool) -> Rows:
    subject, message = str(item.get("subject", "")), str(item.get("message", ""))
    # The message of a manifest's problem begins with its place: FILE:LINE:COLUMN.
    if message.startswith(subject) and (found := _PROBLEM_LINE.fullmatch(message.removeprefix(subject))):
        subject, message = subject + (found[1] or ""), found[2]
    return [(subject, str(item.get("reason", "")), message.replace("\n", " "))]


def ago(moment: str | None) -> str:
    """Return the time since an RFC 3339 time as kubectl prints it."""
    return age(time.time() - datetime.fromisoformat(moment).timestamp()) if moment else "<unknown>"


KINDS: Final = (
    ObjectKind(
        plural="pods",
        singular="pod",
        short="po",
        path="/api/v1/pods",
        headings=("NAME", "READY", "STATUS", "RESTARTS", "AGE"),
        wide=("IP", "NODE"),
        rows=_pod_rows,
        namespaced=True,
        shows_namespace=True,
        watchable=True,
    ),
    ObjectKind(
        plural="events",
        singular="event",
        short="ev",
        path="/api/v1/events",
        headings=("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"),
        wide=("COUNT", "FIELD"),
        rows=_event_rows,
        namespaced=True,
        watchable=True,
    ),
    ObjectKind(
        plural="configmaps",
        singular="configmap",
        short="cm",
        path="/api/v1/configmaps",
        headings=("NAME", "DATA"),
        wide=("KEYS",),
        rows=_config_map_rows,
        namespaced=True,
        shows_namespace=True,
    ),
    ObjectKind(
        plural="secrets",
        singular="secret",
        path="/api/v1/secrets",
        headings=("NAME", "TYPE", "DATA"),
        wide=("KEYS",),
        rows=_secret_rows,
        namespaced=True,
        shows_namespace=True,
    ),
    ObjectKind(
        plural="nodes",
        singular="node",
        short="no",
        path="/api/v1/nodes",
        headings=("NAME", "STATUS", "ROLES", "AGE", "VERSION"),
        wide=("INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"),
        rows=_node_rows,
    ),
    ObjectKind(
        plural="images",
        singular="image",
        path="/pykubelet/v1/images",
        headings=("IMAGE", "ID", "SIZE"),
        rows=_image_rows,
        selectable=False,
    ),
    ObjectKind(
        plural="problems",
        singular="problem",
        path="/pykubelet/v1/problems",
        headings=("SUBJECT", "REASON", "MESSAGE"),
        rows=_problem_rows,
        selectable=False,
    ),
)
BY_NAME: Final = {name: kind for kind in KINDS for name in kind.names}
