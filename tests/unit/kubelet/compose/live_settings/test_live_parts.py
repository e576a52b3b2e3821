"""The components that take changes of the configuration: together they take every field that is applied live."""

from unittest.mock import MagicMock

from pykubelet.kubelet.compose.cluster.live_parts import cluster_live_parts
from pykubelet.kubelet.compose.live_settings.live_parts import live_parts
from pykubelet.kubelet.config.plan.field_effects import (
    CLUSTER_ONLY,
    EFFECTS,
    LIVE,
    LOG,
    PODS,
    SYNC_LOOP,
    ChangeRequirement,
)

READ_AT_EACH_DECISION = frozenset((*LIVE[PODS], *LIVE[LOG], *LIVE[SYNC_LOOP]))
"""Live fields without a part: their users read `LiveSettings`, and the command line sets up the log."""


def test_every_live_field_is_taken_by_a_component() -> None:
    taken = READ_AT_EACH_DECISION.union(*(part.fields for part in live_parts(MagicMock())))
    live = {name for name, effect in EFFECTS.items() if effect.on_change is ChangeRequirement.LIVE}
    of_cluster = (part.fields for part in cluster_live_parts(MagicMock(), MagicMock(), MagicMock()))
    assert taken == live - CLUSTER_ONLY
    assert frozenset[str]().union(*of_cluster) == live & CLUSTER_ONLY
