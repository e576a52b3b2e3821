"""The changes that applying manifests would make, as a unified diff."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from pykubelet.cli.arguments.lookup import list_pods
from pykubelet.cli.arguments.pod_objects import pod_objects
from pykubelet.cli.changes.agent_directory import directory_of
from pykubelet.cli.changes.manifest_input import read_objects
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.kubelet.desired.changes import InputObject, ManifestDirectory
from pykubelet.kubelet.desired.manifest import LocalObject, adopt, parse
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import Pod, Secret

_AGENTS_ANNOTATIONS = "kubernetes.io/config."
_AGENTS_METADATA = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


def manifest_diff(api: LocalApi, files: Sequence[Path], namespace: str) -> str:
    """Return how the objects of the files differ from those of the agent; empty: not at all.

    SystemExit: the files have errors, which are printed. PykubeletError: files or agent cannot be read.
    """
    given = read_objects(files, namespace=namespace)
    directory = directory_of(api)
    return "".join(_diff(each, _present(api, directory, each), directory.node_name) for each in given)


def _present(api: LocalApi, directory: ManifestDirectory, given: InputObject) -> LocalObject | None:
    """Return the object as the agent has it: a pod as it runs, others as in the manifest directory."""
    key = given.item.key
    if key.kind == "Pod":
        names = (key.name, f"{key.name}-{directory.node_name.lower()}")
        pods = pod_objects(pod for pod in list_pods(api, key.namespace) if pod.name in names)
        # While a changed pod replaces the old one, both exist.
        pods.sort(key=lambda pod: pod.metadata.deletion_timestamp is None)
        return pods[-1] if pods else None
    found = directory.find(key)
    objects = parse(found.data, found.origin).objects if found is not None else ()
    return next((each.value for each in objects if each.key == key), None)


def _diff(given: InputObject, present: LocalObject | None, node_name: str) -> str:
    wanted: LocalObject = given.item.value
    if isinstance(wanted, Pod):
        wanted = adopt(wanted, given.item.digest, Source.FILE, "", node_name)
    before = _plain(present) if present is not None else {}
    after = _plain(wanted)
    if isinstance(wanted, Secret):
        _mask(before, after)
    name = f"{given.item.key.kind.lower()}/{given.item.key.namespace}/{given.item.key.name}"
    lines = difflib.unified_diff(_lines(before), _lines(after), f"agent/{name}", f"file/{name}")
    return "".join(lines)


def _plain(value: LocalObject) -> dict[str, Any]:
    """Return the object as plain values, without what only the agent sets."""
    if isinstance(value, Pod):
        value = replace(value, api_version="v1", kind="Pod")
    plain: Any = to_builtins(value)
    plain.pop("status", None)
    metadata = {key: each for key, each in plain.get("metadata", {}).items() if key not in _AGENTS_METADATA}
    annotations = {
        key: each for key, each in metadata.pop("annotations", {}).items() if not key.startswith(_AGENTS_ANNOTATIONS)
    }
    plain["metadata"] = {**metadata, "annotations": annotations} if annotations else metadata
    return dict(plain)


def _mask(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Replace the values of Secrets, so that only the fact of a change is shown, as kubectl does."""
    for field in ("data", "stringData"):
        old, new = dict(before.get(field, {})), dict(after.get(field, {}))
        for key in old.keys() | new.keys():
            same = old.get(key) == new.get(key)
            if key in old:
                before[field] = {**before[field], key: "***" if same or key not in new else "*** (before)"}
            if key in new:
                after[field] = {**after[field], key: "***" if same or key not in old else "*** (after)"}


def _lines(value: dict[str, Any]) -> list[str]:
    if not value:
        return []
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    # Not splitlines: it also ends lines at separators inside of values.
    return [f"{line}\n" for line in str(text).removesuffix("\n").split("\n")]
