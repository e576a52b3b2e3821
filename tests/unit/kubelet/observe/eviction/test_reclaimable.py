"""Dead containers that may be removed when a disk is short."""

import pytest

from pykubelet.kubelet.observe.eviction.plan.reclaimable import without_need_of_containers
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models.core_v1 import Pod, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta


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
    assert without_need_of_containers([pod], ()) == (frozenset({"u"}) if recorded else frozenset())


@pytest.mark.parametrize(("source", "spent"), [("api", True), ("file", False)])
def test_evicted_pod_needs_no_containers_before_its_end_is_recorded(source: str, spent: bool) -> None:
    pod = Pod(metadata=ObjectMeta(uid="u", annotations={ANNOTATION_SOURCE: source}), status=PodStatus(phase="Running"))
    found = without_need_of_containers([pod], {PodUID("u"), PodUID("other")})
    assert found == (frozenset({"u"}) if spent else frozenset())
