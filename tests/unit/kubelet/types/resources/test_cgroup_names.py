"""Names of pod cgroups in both styles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources import cgroup_names as names
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle
from pykubelet.kubelet.types.resources.qos import QosClass

UID = PodUID("1234-abcd-5678")


@pytest.mark.parametrize(
    ("root", "qos", "cgroupfs", "systemd"),
    [
        ("/", QosClass.GUARANTEED, "/kubepods/pod1234-abcd-5678", "kubepods-pod1234_abcd_5678.slice"),
        (
            "",
            QosClass.BURSTABLE,
            "/kubepods/burstable/pod1234-abcd-5678",
            "kubepods-burstable-pod1234_abcd_5678.slice",
        ),
        (
            "/site/a-b/",
            QosClass.BEST_EFFORT,
            "/site/a-b/kubepods/besteffort/pod1234-abcd-5678",
            "site-a_b-kubepods-besteffort-pod1234_abcd_5678.slice",
        ),
    ],
)
def test_cgroup_path_of_a_pod_has_the_form_of_the_driver(root: str, qos: QosClass, cgroupfs: str, systemd: str) -> None:
    name = names.pod_name(names.root_name(root), qos, UID)
    assert names.to_path(name) == cgroupfs
    assert names.cri_parent(name) == cgroupfs
    assert names.cri_parent(name, NameStyle.SYSTEMD) == systemd


def test_systemd_path_repeats_the_parents() -> None:
    name = names.pod_name(names.root_name(), QosClass.BURSTABLE, UID)
    assert names.to_path(name, NameStyle.SYSTEMD) == (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd_5678.slice"
    )
    assert names.to_path((), NameStyle.SYSTEMD) == "/"
    assert names.from_path("/", NameStyle.SYSTEMD) == ()


@given(
    st.lists(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True), min_size=1, max_size=4),
    st.sampled_from(NameStyle),
)
def test_both_styles_round_trip(parts: list[str], style: NameStyle) -> None:
    assert names.from_path(names.to_path(tuple(parts), style), style) == tuple(parts)


@pytest.mark.parametrize("uid", ["", "a/b", "..", ".", "a_b", "a\0b"])
def test_uid_that_is_no_path_component_is_refused(uid: str) -> None:
    with pytest.raises(Invalid):
        names.pod_name(names.root_name(), QosClass.GUARANTEED, PodUID(uid))


@pytest.mark.parametrize("root", ["/..", "/a/../b", "/a_b"])
def test_cgroup_root_with_forbidden_components_is_refused(root: str) -> None:
    with pytest.raises(Invalid, match="cgroupRoot"):
        names.root_name(root)


@pytest.mark.parametrize(
    ("component", "uid"), [("pod12", "12"), ("pod", None), ("burstable", None), ("xpod1", None), ("", None)]
)
def test_uid_is_read_from_the_name_of_a_pod_cgroup(component: str, uid: str | None) -> None:
    assert names.uid_of(component) == uid
