"""Lists the objects that the user asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.arguments.kinds import ObjectKind, name_of
from pykubelet.cli.arguments.targets import Target
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.wait_reasons import failures_of


@dataclass(frozen=True, slots=True)
class ListSelection:
    """Selection of objects of a kind; an empty field selects any."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def of_kind(self, kind: ObjectKind) -> tuple[str, dict[str, str]]:
        """Return path and query of a list request. UsageError: the kind has no selectors."""
        if (self.labels or self.fields) and not kind.selectable:
            raise click.UsageError(f"{kind.plural} cannot be selected with -l or --field-selector")
        path = kind.path
        if self.namespace and kind.namespaced:
            path = path.replace("/api/v1/", f"/api/v1/namespaces/{self.namespace}/")
        return path, {"labelSelector": self.labels, "fieldSelector": self.fields}


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """Objects of one kind, and the names that do not exist."""

    kind: ObjectKind
    items: Sequence[Any]
    version: str = ""
    """Version of the list, from which a watch goes on."""
    missing: Sequence[NotFound] = ()


def listed(api: LocalApi, target: Target, selection: ListSelection) -> ListedObjects:
    """Return the objects of a target. Errors as of :meth:`LocalApi.get`; missing names are in the result."""
    path, query = selection.of_kind(target.kind)
    if target.names and target.kind.plural == "events":
        return _events_of_pods(api, target, selection)
    answer = api.get(path, **query)
    items = list(answer["items"])
    if target.kind.plural == "events":
        items.sort(key=_last_seen)  # the newest is the last line, as of a log
    if target.kind.plural == "problems":
        items += _pod_problems(api, api.get("/api/v1/pods")["items"])
    version = str(answer.get("metadata", {}).get("resourceVersion", ""))
    if not target.names:
        return ListedObjects(target.kind, items, version)
    found, missing = named(target.kind, items, target.names, selection.namespace)
    return ListedObjects(target.kind, found, version, missing)


def named(
    kind: ObjectKind, items: Sequence[Any], names: Sequence[str], namespace: str
) -> tuple[list[Any], list[NotFound]]:
    """Return the objects with these names, and an error for each name that no object has.

    Static pods are also found by their manifest's name. Invalid: several namespaces have an object of a name.
    """
    found, missing = [], []
    for name in names:
        chosen = [item for item in items if name in _names_of(item)] or [
            item for item in items if name_of(item) == f"{name}-{item.get('spec', {}).get('nodeName')}"
        ]
        spaces = [item.get("metadata", {}).get("namespace", "") for item in chosen]
        if len(set(spaces)) > 1:
            listed = ", ".join(spaces)
            raise Invalid(f"{kind.singular} {name!r} exists in several namespaces ({listed}); choose one with -n")
        if chosen:
            found += chosen
        else:
            missing.append(not_found(kind.singular, name, [_short_name(item) for item in items], namespace))
    return found, missing


def not_found(kind: str, name: str, known: Sequence[str], namespace: str = "") -> NotFound:
    """Return the error for a name that no object has, with the closest name or the existing ones."""
    where = f" in namespace {namespace}" if namespace else ""
    advice = did_you_mean(name, known) or f"; existing {kind}s: {', '.join(known[:20]) or 'none'}"
    return NotFound(f"{kind} {name!r} not found{where}{advice}")


def _pod_problems(api: LocalApi, pods: Sequence[Any]) -> list[Any]:
    """Return a problem for each container that cannot start or go on, and each pod that the agent has rejected.

    A pod that is not ready although its status names no cause has the failures that the agent explains.
    """
    found = []
    for pod in pods:
        subject = f"pod {pod['metadata'].get('namespace', '')}/{name_of(pod)}"
        causes = list(_causes(pod.get("status", {})))
        if not causes and _should_be_ready(pod):
            causes = failures_of(api, pod)
        found += [{"subject": subject, "reason": reason, "message": message} for reason, message in causes]
    return found


def _causes(status: Any) -> Iterator[tuple[str, str]]:
    if status.get("phase") == "Failed" and status.get("reason"):
        yield status["reason"], status.get("message", "")
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = each.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield waiting["reason"], f"container {each['name']}: {waiting.get('message') or waiting['reason']}"


def _should_be_ready(pod: Any) -> bool:
    """Whether the pod is to run, and is not ready."""
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return False
    return (
        not all(each.get("ready") for each in status.get("containerStatuses", ())) or status.get("phase") != "Running"
    )


def _short_name(item: Any) -> str:
    """Return the name that the user is likely to type: that of a static pod's manifest."""
    return name_of(item).removesuffix(f"-{item.get('spec', {}).get('nodeName')}")


def _names_of(item: Any) -> Sequence[str]:
    return [*item.get("repoTags", ()), *item.get("repoDigests", ()), name_of(item)]


def _last_seen(event: Any) -> str:
    """Return the time of an event in seconds, as text that sorts by time."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _events_of_pods(api: LocalApi, target: Target, selection: ListSelection) -> ListedObjects:
    """Return the events of the named pods, also of those that are gone."""
    path, query = selection.of_kind(target.kind)
    answer = api.get(path, **query)
    pods, _ = _pods_named(api, target.names, selection.namespace)
    names = {name_of(pod) for pod in pods} | set(target.names)
    items = [item for item in answer["items"] if item.get("involvedObject", {}).get("name") in names]
    items.sort(key=_last_seen)
    return ListedObjects(target.kind, items, str(answer.get("metadata", {}).get("resourceVersion", "")))


def _pods_named(api: LocalApi, names: Sequence[str], namespace: str) -> tuple[list[Any], list[NotFound]]:
    from pykubelet.cli.arguments.kinds import BY_NAME

    path, _ = ListSelection(namespace).of_kind(BY_NAME["pods"])
    return named(BY_NAME["pods"], api.get(path)["items"], names, namespace)
