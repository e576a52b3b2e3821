"""Takes objects out of the manifest directory of the running agent."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from pykubelet.base.errors import Conflict, NotFound, Permanent, PykubeletError, Transient
from pykubelet.cli.arguments.lookup import find_pod, list_pods
from pykubelet.cli.arguments.pod_args import chosen_pods, kind_and_names, without_kind
from pykubelet.cli.arguments.pod_objects import pod_object, pod_objects
from pykubelet.cli.changes.agent_directory import directory_of
from pykubelet.cli.changes.manifest_input import read_documents
from pykubelet.cli.changes.pod_wait import AwaitedPod, by_uid, wait_for_pods
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.pod_goals import deleted
from pykubelet.cli.terminal import echo
from pykubelet.kubelet.desired.changes import ManifestDirectory, keys_of
from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE, Source
from pykubelet.models.core_v1 import Pod

_NOTICED_SECONDS = 30.0
"""Limit for the agent to notice a removed manifest; it is notified of changes, and reads all files every 20 s."""
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ObjectsToDelete:
    """The objects that the user names."""

    words: tuple[str, ...]
    namespace: str
    selector: str
    everything: bool
    files: tuple[Path, ...]


def delete_objects(
    api: LocalApi,
    selection: ObjectsToDelete,
    *,
    grace_seconds: int,
    wait: bool,
    timeout: float | None,
    ignore_not_found: bool,
) -> None:
    """Delete objects and print what was done; with ``wait`` until their pods are gone.

    ``grace_seconds`` is the grace period of the pods, -1: that of their manifests. ``timeout`` is the limit of the wait
    in seconds, None: no limit. SystemExit: with 124 after the limit. PykubeletError: an object cannot be deleted; the
    others are.
    """
    directory = directory_of(api)
    keys = _keys(api, directory, selection, ignore_not_found=ignore_not_found)
    pods = {_full_name(pod): pod for pod in pod_objects(list_pods(api))}
    gone: list[Pod] = []
    failures: list[PykubeletError] = []
    with directory.locked():
        for key in keys:
            pod = pods.get((key.namespace, key.name)) or pods.get(
                (key.namespace, f"{key.name}-{directory.node_name.lower()}")
            )
            try:
                directory.remove(key)
            except NotFound as error:
                failures += [] if ignore_not_found else [error]
                continue
            except PykubeletError as error:  # that of one object does not keep the others
                failures.append(error)
                continue
            echo(f'{key.kind.lower()} "{key.name}" deleted')
            if key.kind == "Pod" and pod is not None:
                gone.append(pod)
    if grace_seconds >= 0:
        _limit_grace(api, gone, grace_seconds)
    if wait and gone:
        wait_for_pods(api, [_awaited(pod) for pod in gone], timeout)
    if len(failures) > 1:
        raise Permanent("; ".join(map(str, failures)))
    if failures:
        raise failures[0]


def _awaited(pod: Pod) -> AwaitedPod:
    meta = pod.metadata
    return AwaitedPod(f"pod/{meta.name}", by_uid(meta.uid), deleted, namespace=meta.namespace)


def _limit_grace(api: LocalApi, pods: Sequence[Pod], seconds: int) -> None:
    """Give pods that have no manifest any more this grace period, in seconds.

    Transient: the agent has not noticed within 30 s that the manifests are gone.
    """
    deadline = time.monotonic() + _NOTICED_SECONDS
    for pod in pods:
        while not _is_limited(api, pod, seconds):
            if time.monotonic() >= deadline:
                raise Transient(
                    f"the agent has not noticed within {_NOTICED_SECONDS:g} s that the manifest of pod "
                    f"{pod.metadata.name} is gone; the pod keeps its own grace period"
                )
            time.sleep(_POLL_SECONDS)


def _is_limited(api: LocalApi, pod: Pod, seconds: int) -> bool:
    """Request the grace period; return whether the pod has it now, or is gone."""
    try:
        api.post(f"/pykubelet/v1/stop/{pod.metadata.uid}", gracePeriodSeconds=seconds)
    except NotFound:
        return True
    except Conflict:
        return False
    return True


def _keys(
    api: LocalApi, directory: ManifestDirectory, selection: ObjectsToDelete, *, ignore_not_found: bool
) -> list[ObjectKey]:
    """Return the objects to delete, without repetitions. NotFound, Conflict: one of them cannot be deleted here."""
    if selection.files:
        if selection.words or selection.selector or selection.everything:
            raise click.UsageError("name objects, or files with -f, not both")
        # Pods come first: they must not be started again without their ConfigMaps.
        return sorted(keys_of(read_documents(selection.files), selection.namespace), key=lambda key: key.kind != "Pod")
    selects = bool(selection.selector) or selection.everything
    named = kind_and_names(without_kind(selection.words, selects=selects))
    found: list[ObjectKey] = []
    for kind, name in named:
        if kind != "Pod":
            found.append(ObjectKey(kind, selection.namespace or "default", name))
            continue
        try:
            found.append(_pod_key(api, directory, name, selection.namespace))
        except NotFound:
            if not ignore_not_found:
                raise
    if not named:
        chosen = chosen_pods(api, (), selection.namespace, selector=selection.selector, everything=selection.everything)
        found = [_key_of(pod) for pod in pod_objects(chosen) if _is_from_file(pod)]
        if not found and not ignore_not_found:
            raise NotFound("no pods of the manifest directory match the selection")
    return list(dict.fromkeys(found))


def _pod_key(api: LocalApi, directory: ManifestDirectory, name: str, namespace: str) -> ObjectKey:
    """Return the key of a pod that the agent has, or that only a manifest names."""
    try:
        pod = pod_object(find_pod(api, name, namespace))
    except NotFound:
        key = ObjectKey("Pod", namespace or "default", name)
        if directory.find(key) is not None:
            return key
        if Path(name).is_file():
            raise NotFound(f"pod {name!r} not found; the objects in a file: pykubelet delete -f {name}") from None
        raise
    if not _is_from_file(pod):
        source = pod.metadata.annotations.get(ANNOTATION_SOURCE, "another source")
        raise Conflict(f"pod {pod.metadata.name} is not from the manifest directory but from {source}: delete it there")
    return _key_of(pod)


def _is_from_file(pod: Pod) -> bool:
    return pod.metadata.annotations.get(ANNOTATION_SOURCE) == Source.FILE.value


def _key_of(pod: Pod) -> ObjectKey:
    name = pod.metadata.name.removesuffix(f"-{pod.spec.node_name.lower()}")
    return ObjectKey("Pod", pod.metadata.namespace, name)


def _full_name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
