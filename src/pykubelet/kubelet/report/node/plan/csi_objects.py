"""The CSINode object and the CSI parts of the Node object, computed from the registered drivers. Pure.

Source: Kubernetes API, `CSINode`. The scheduler reads volume limits and topology there, controllers read the node ids.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import read_json
from pykubelet.kubelet.types.storage import MIGRATED_PLUGINS, DriverNodeInfo
from pykubelet.models.core_v1 import Node
from pykubelet.models.meta_v1 import ObjectMeta, OwnerReference
from pykubelet.models.storage_v1 import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources

NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Tells the controllers that volumes of these in-tree plugins are attached through CSI on this node."""
_PLUGINS: Final = ",".join(MIGRATED_PLUGINS)
_MAX_COUNT: Final = 2**31 - 1


def new_csi_node(node: Node) -> CSINode:
    """Return the CSINode of a node without drivers; its owner reference deletes it with the node."""
    return CSINode(
        api_version="storage.k8s.io/v1",
        kind="CSINode",
        metadata=ObjectMeta(
            name=node.metadata.name, owner_references=(_owner(node),), annotations={_MIGRATED: _PLUGINS}
        ),
        spec=CSINodeSpec(),
    )


def with_drivers(
    found: CSINode, node: Node, there: Mapping[str, DriverNodeInfo], gone: Collection[str]
) -> CSINode | None:
    """Return the object with the present drivers and without the removed ones; None if it is up to date.

    Drivers that are in neither set are kept: they may only register late.
    """
    kept = [driver for driver in found.spec.drivers if driver.name not in there and driver.name not in gone]
    drivers = (*kept, *(_driver(name, there[name]) for name in sorted(there)))
    same = {d.name: d for d in drivers} == {d.name: _sorted(d) for d in found.spec.drivers}
    owner = _owner(node)
    migrated = found.metadata.annotations.get(_MIGRATED, "").split(",") == list(MIGRATED_PLUGINS)
    if same and migrated and found.metadata.owner_references == (owner,):
        return None
    annotations = {**found.metadata.annotations, _MIGRATED: _PLUGINS}
    meta = replace(found.metadata, owner_references=(owner,), annotations=annotations)
    return replace(found, metadata=meta, spec=CSINodeSpec(drivers=drivers))


def node_patch(node: Node, there: Mapping[str, DriverNodeInfo], gone: Collection[str]) -> dict[str, object] | None:
    """Return the merge patch for the node's CSI ids and topology labels; None if nothing has to change."""
    text = node.metadata.annotations.get(NODE_IDS, "")
    before = _ids(text)
    after = {name: value for name, value in before.items() if name not in gone}
    after |= {name: info.node_id for name, info in there.items()}
    labels = {key: value for info in there.values() for key, value in info.topology.items()}
    labels = {key: value for key, value in labels.items() if node.metadata.labels.get(key) != value}
    meta: dict[str, object] = {}
    if after != before:
        meta["annotations"] = {NODE_IDS: json.dumps(after, sort_keys=True, separators=(",", ":")) if after else None}
    if labels:
        meta["labels"] = labels
    return {"metadata": meta} if meta else None


def topology_collisions(node: Node, there: Mapping[str, DriverNodeInfo]) -> dict[str, str]:
    """Return the drivers that report another value of a topology label than the node has, with upstream's message.

    Such a driver is not published: it would move the node to another zone.
    """
    found: dict[str, str] = {}
    for name, info in there.items():
        for key, value in sorted(info.topology.items()):
            existing = node.metadata.labels.get(key)
            if existing is not None and existing != value:
                found[name] = (
                    f'detected topology value collision: driver reported "{key}":"{value}" but existing label is '
                    f'"{key}":"{existing}"'
                )
                break
    return found


def _driver(name: str, info: DriverNodeInfo) -> CSINodeDriver:
    count = min(info.max_volumes, _MAX_COUNT)
    return CSINodeDriver(
        name=name,
        node_id=info.node_id,
        topology_keys=tuple(sorted(info.topology)),
        allocatable=VolumeNodeResources(count=count) if count > 0 else None,
    )


def _sorted(driver: CSINodeDriver) -> CSINodeDriver:
    return replace(driver, topology_keys=tuple(sorted(driver.topology_keys)))


def _owner(node: Node) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)


def _ids(text: str) -> dict[str, str]:
    try:
        found = read_json(text) if text else {}
    except Invalid:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
