"""The table of what a change of each field needs."""

import msgspec

from pykubelet.kubelet.config.plan.field_effects import (
    CLUSTER_ONLY,
    EFFECTS,
    ENTRIES,
    SECRET_VALUES,
    ChangeRequirement,
    effect_of,
)
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration


def test_table_has_each_field_of_the_configuration_once() -> None:
    fields = sorted(field.encode_name for field in msgspec.structs.fields(KubeletConfiguration))
    assert sorted(name for name, _ in ENTRIES) == fields, "enter the field in field_effects.py"
    assert set(fields) >= CLUSTER_ONLY | SECRET_VALUES


def test_each_field_has_a_text() -> None:
    assert all(effect.text for effect in EFFECTS.values())


def test_field_for_the_api_server_has_no_effect_without_one() -> None:
    assert effect_of("registerNode", cluster=True).on_change is ChangeRequirement.RESTART
    alone = effect_of("registerNode", cluster=False)
    assert (alone.on_change, alone.text) == (ChangeRequirement.NOTHING, "the agent has no API server")
    assert effect_of("maxPods", cluster=False) == effect_of("maxPods", cluster=True)
