"""The tables about kinds of volumes agree: a kind that is new in one of them is in all of them."""

from pykubelet.kubelet.actuate.volumes import source_lookup, volume_manager
from pykubelet.kubelet.actuate.volumes.mount import remote_volumes
from pykubelet.kubelet.actuate.volumes.plan import claims, csi_migration, pod_volumes
from pykubelet.kubelet.actuate.volumes.volume_metrics import Measure
from pykubelet.kubelet.actuate.volumes.volume_source import LOCAL, Source
from pykubelet.kubelet.observe.stats import volume_usage
from pykubelet.models.core_v1 import EphemeralVolumeSource, PersistentVolumeClaimVolumeSource, Pod, Volume

NODE = volume_manager._PLUGINS.keys() - {LOCAL}
"""Kinds of a pod's volumes that the node provides."""
REMOTE = remote_volumes.KINDS
CLAIMED = {"persistent_volume_claim", "ephemeral"}
"""Kinds that name a claim."""
NAMES = {kind: plugin.name for kind, plugin in volume_manager._PLUGINS.items()}


def manifest_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join("API" if part == "api" else part.capitalize() for part in rest)


def directory(kind: str) -> str:
    """The directory below ``volumes`` of a pod's directory, by the name of the plugin."""
    name = Measure(names=NAMES).plugin(Source(kind=kind, name="v", volume=Volume(name="v")))
    assert name, f"{kind}: Measure.plugin does not know it"
    return name.replace("/", "~")


def test_message_about_an_unsupported_kind_lists_all_that_are_supported() -> None:
    assert ", ".join(sorted(map(manifest_name, NODE | REMOTE | CLAIMED))) == pod_volumes._SUPPORTED


def test_each_kind_is_a_field_of_a_volume_of_one_sort() -> None:
    sorts = (NODE, REMOTE, CLAIMED, csi_migration.KINDS, pod_volumes._NEVER.keys())
    assert sum(map(len, sorts)) == len(frozenset().union(*sorts))
    assert frozenset().union(*sorts) <= set(Volume.__struct_fields__)


def test_kinds_that_name_a_claim_are_those_that_are_looked_up() -> None:
    by_name = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    for volume in (by_name, Volume(name="v", ephemeral=EphemeralVolumeSource())):
        assert pod_volumes.source_of(volume) in CLAIMED
        assert claims.claim_name(Pod(), volume)


def test_content_of_remote_kinds_and_of_local_volumes_is_not_walked() -> None:
    """A walk of a network mount may hang, and its files are not on the node's disk."""
    assert {directory(kind) for kind in REMOTE | {LOCAL}} == volume_usage._NOT_WALKED
    assert not {directory(kind) for kind in NODE} & volume_usage._NOT_WALKED


def test_remote_kinds_are_set_up_only_for_containers_that_use_them() -> None:
    assert set(source_lookup._ONLY_IF_USED) == REMOTE


def test_kinds_that_show_objects_are_of_the_node() -> None:
    assert set(pod_volumes._MADE_OF_OBJECTS) <= NODE
