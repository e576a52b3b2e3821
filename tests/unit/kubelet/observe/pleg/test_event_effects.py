"""Effects of an event of the runtime, by the facts that PLEG knows of its container."""

import pytest

from pykubelet.kubelet.observe.pleg.plan.event_effects import Effect, PodCheck, PodStateChange, Relist, effect
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from tests.unit.kubelet.observe.pleg.fakes import container, pod

OWNER, NAMED = PodUID("owner"), PodUID("named")
CONFIG = PlegConfig()
Kind = RuntimeEventKind


@pytest.mark.parametrize("kind", list(Kind))
def test_event_of_a_known_container_is_applied_to_its_pod(kind: RuntimeEventKind) -> None:
    assert effect(RuntimeEvent("c", kind, 0.0, NAMED), OWNER, CONFIG) == PodStateChange(OWNER)


def test_event_that_shows_its_pod_is_applied_to_that_pod() -> None:
    shown = pod("shown", container("c"))
    assert effect(RuntimeEvent("c", Kind.STARTED, 0.0, NAMED, shown), None, CONFIG) == PodStateChange(PodUID("shown"))
    assert effect(RuntimeEvent("c", Kind.STARTED, 0.0, NAMED, shown), OWNER, CONFIG) == PodStateChange(PodUID("shown"))


@pytest.mark.parametrize(
    ("kind", "named", "expected"),
    [
        (Kind.DELETED, NAMED, None),
        (Kind.OOM, NAMED, None),
        (Kind.STARTED, NAMED, PodCheck(NAMED)),
        (Kind.STOPPED, NAMED, PodCheck(NAMED)),
        (Kind.STARTED, None, Relist(CONFIG.batch_delay)),
        (Kind.CREATED, None, Relist(CONFIG.batch_delay)),
        (Kind.STOPPED, None, Relist(0.0)),
    ],
)
def test_event_of_an_unknown_container_checks_its_pod_or_relists(
    kind: RuntimeEventKind, named: PodUID | None, expected: Effect
) -> None:
    assert effect(RuntimeEvent("c", kind, 0.0, named), None, CONFIG) == expected


def test_deletion_does_not_bring_back_the_pod_that_it_shows() -> None:
    event = RuntimeEvent("c", Kind.DELETED, 0.0, NAMED, pod("shown", container("c")))
    assert effect(event, None, CONFIG) is None
