"""What may be removed when a disk is short."""

import pytest

from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.observe.eviction.plan.reclaimable import reclaimable, with_recorded_end
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models.core_v1 import Pod, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta


def test_containers_are_removed_only_once_all_sources_have_been_read() -> None:
    assert reclaimable(tuple(Reclaim), sources_read=True) == frozenset(Reclaim)
    assert reclaimable(tuple(Reclaim), sources_read=False) == {Reclaim.IMAGES}
    assert reclaimable((Reclaim.CONTAINERS,), sources_read=False) == frozenset()


@pytest.mark.parametrize(
    ("source", "phase", "recorded"),
    [
        ("api", "Succeeded", True),
        ("api", "Failed", True),
        ("api", "Running", False),
        ("api", "", False),
        ("file", "Succeeded", False),
        ("http", "Failed", False),
    ],
)
def test_end_is_recorded_by_the_api_server_or_not_at_all(source: str, phase: str, recorded: bool) -> None:
    pod = Pod(metadata=ObjectMeta(uid="u", annotations={ANNOTATION_SOURCE: source}), status=PodStatus(phase=phase))
    assert with_recorded_end([pod]) == (frozenset({"u"}) if recorded else frozenset())
