"""``pykubelet get``: list or watch pods, events or images."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
import yaml

from pykubelet.cli.columns import Columns, age, size
from pykubelet.cli.local_api import LocalApi
from pykubelet.cli.lookup import api_of, find_pod
from pykubelet.cli.pod_row import pod_row
from pykubelet.cli.pull_progress import watch_with_pulls
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Event, Pod

_KINDS = {"pod": "pods", "po": "pods", "event": "events", "ev": "events", "image": "images"}


@dataclass(frozen=True, slots=True)
class _View:
    """How objects of one kind are requested and printed."""

    path: str
    headings: tuple[str, ...]
    rows: Callable[[Any, bool], Sequence[Sequence[str]]]
    wide: tuple[str, ...] = ()


def _pod_rows(item: Any, wide: bool) -> Sequence[Sequence[str]]:
    row = pod_row(from_builtins(item, Pod), time.time())
    cells = (row.namespace, row.name, row.ready, row.status, row.restarts, age(row.age_seconds))
    return [(*cells, row.ip, row.node) if wide else cells]


def _event_rows(item: Any, wide: bool) -> Sequence[Sequence[str]]:
    event = from_builtins(item, Event)
    seen = event.last_timestamp or event.metadata.creation_timestamp
    subject = event.involved_object
    name = f"{subject.kind.lower()}/{subject.name}"
    cells = (_ago(seen), event.type, event.reason, name, event.message.replace("\n", " "))
    return [(*cells, str(event.count or 1), subject.field_path) if wide else cells]


def _image_rows(item: Any, wide: bool) -> Sequence[Sequence[str]]:
    """Return a row for each name of the image."""
    names = item.get("repoTags") or item.get("repoDigests") or ["<none>"]
    identity = str(item.get("id", ""))
    shown = identity if wide else identity.removeprefix("sha256:")[:12]
    return [(name, shown, size(int(item.get("size", 0)))) for name in names]


_VIEWS = {
    "pods": _View(
        "/api/v1/pods",
        ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"),
        _pod_rows,
        ("IP", "NODE"),
    ),
    "events": _View(
        "/api/v1/events", ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), _event_rows, ("COUNT", "FIELD")
    ),
    "images": _View("/pykubelet/v1/images", ("IMAGE", "ID", "SIZE"), _image_rows),
}


def _ago(moment: datetime | None) -> str:
    return age(time.time() - moment.timestamp()) if moment else "<unknown>"


@click.command(name="get")
@click.argument("kind", type=click.Choice(["pods", "events", "images", *_KINDS]), metavar="pods|events|images")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="", help="Only this namespace (default: all).")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), default=None, help="Output format.")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes.")
@click.pass_obj
def command(socket: object, kind: str, name: str | None, namespace: str, output: str | None, watch: bool) -> None:
    """List pods, events or images of the agent; with a NAME only that pod (or its events)."""
    api = api_of(socket)
    kind = _KINDS.get(kind, kind)
    if watch and kind == "images":
        raise click.UsageError("images cannot be watched")
    view = _VIEWS[kind]
    path, query = _request(api, kind, view.path, name, namespace)
    show = _printer(view, output, single=bool(name) or watch)
    if watch:
        events = api.watch(path, **query)
        if kind == "pods" and output in (None, "wide"):
            events = watch_with_pulls(events, api)
        for event_type, item in events:
            show([item] if event_type != "DELETED" or output else [_deleted(item)])
        return
    items = api.get(path, **query)["items"]
    if not items and output not in ("json", "yaml"):
        click.echo(f"no {kind} found", err=True)
        return
    show(items)


def _request(api: LocalApi, kind: str, path: str, name: str | None, namespace: str) -> tuple[str, dict[str, str]]:
    query: dict[str, str] = {}
    if name and kind != "images":
        pod = find_pod(api, name, namespace)
        field = "metadata.name" if kind == "pods" else "involvedObject.name"
        query["fieldSelector"] = f"{field}={pod.metadata.name}"
        namespace = pod.metadata.namespace
    if namespace and kind != "images":
        path = path.replace("/api/v1/", f"/api/v1/namespaces/{namespace}/")
    return path, query


def _deleted(item: Any) -> Any:
    status = {**item.get("status", {}), "reason": "Deleted", "containerStatuses": [], "initContainerStatuses": []}
    return {**item, "status": status, "metadata": {**item["metadata"], "deletionTimestamp": None}}


def _printer(view: _View, output: str | None, *, single: bool) -> Callable[[list[Any]], None]:
    """Return a function that prints objects in the requested form; with ``single``, one object without a list."""

    def document(items: list[Any]) -> Any:
        return items[0] if single and len(items) == 1 else _list(items)

    if output == "json":
        return lambda items: click.echo(json.dumps(document(items), indent=2))
    if output == "yaml":
        return lambda items: click.echo(yaml.dump(document(items), Dumper=yaml.CSafeDumper, sort_keys=False), nl=False)
    wide = output == "wide"
    columns = Columns(*view.headings, *(view.wide if wide else ()))
    return lambda items: click.echo(columns.render([row for item in items for row in view.rows(item, wide)]))


def _list(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}
