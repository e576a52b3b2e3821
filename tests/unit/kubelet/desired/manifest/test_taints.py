"""Taints that the API server would refuse, with the node that has them."""

from datetime import UTC, datetime

import pytest

from pykubelet.kubelet.desired.manifest.validate.taints import wrong_taints
from pykubelet.models.core_v1 import Taint


def test_valid_taints_pass_also_those_with_one_key_and_two_effects() -> None:
    given = (Taint(key="a.b/c", value="d", effect="NoSchedule"), Taint(key="a.b/c", effect="NoExecute"))
    assert list(wrong_taints(given, "registerWithTaints")) == []


@pytest.mark.parametrize(
    ("taint", "message"),
    [
        (Taint(key="a b", effect="NoSchedule"), "taints[1].key: 'a b' is no"),
        (Taint(key="a", value="b c", effect="NoSchedule"), "taints[1].value: 'b c' is no label value"),
        (Taint(key="a", effect="Never"), "taints[1].effect: 'Never' is not known; use one of NoSchedule, Prefer"),
        (Taint(key="a", effect="NoExecute", time_added=datetime.now(UTC)), "taints[1].timeAdded: must not be set"),
        (Taint(key="first", value="x", effect="NoExecute"), "taints[1]: key 'first' with effect 'NoExecute' is there"),
    ],
)
def test_wrong_taint_is_named_with_its_place(taint: Taint, message: str) -> None:
    (found,) = wrong_taints((Taint(key="first", effect="NoExecute"), taint), "taints")
    assert found.startswith(message)
