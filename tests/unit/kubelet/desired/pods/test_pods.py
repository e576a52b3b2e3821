"""The pod manager: look-ups, mirror pods, and which pods use an object."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.desired.pods import PodManager, current_mirror, is_mirror_of
from pykubelet.kubelet.types.ids import PodFullName, PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_HASH
from tests.unit.kubelet.desired.pods.build import mirror, pod, static


def config(name: str) -> ObjectKey:
    return ObjectKey("ConfigMap", "default", name)


def test_pod_is_found_by_uid_and_name_until_it_is_removed() -> None:
    manager = PodManager()
    one = pod("a", "1")
    manager.set(one)
    assert manager.by_uid(PodUID("1")) is one
    assert manager.by_name("default", "a") is one
    assert manager.by_full_name(PodFullName("a_default")) is one
    assert manager.by_name("other", "a") is None
    assert manager.by_uid(PodUID("2")) is None
    assert manager.uids() == ("1",)
    changed = pod("a", "1", "c")
    manager.set(changed)
    assert manager.pods() == (changed,)
    manager.remove(PodUID("1"))
    manager.remove(PodUID("1"))
    assert manager.pods() == ()
    assert manager.by_name("default", "a") is None


def test_a_changed_static_pod_keeps_its_name_when_the_old_one_goes() -> None:
    manager = PodManager()
    manager.set(static("a", "old"))
    new = static("a", "new")
    manager.set(new)
    manager.remove(PodUID("old"))
    assert manager.by_name("default", "a") is new


def test_users_of_an_object_are_the_pods_that_name_it() -> None:
    manager = PodManager()
    manager.set(pod("a", "1", "x", "y"))
    manager.set(pod("b", "2", "y"))
    assert manager.using([config("x")]) == {"1"}
    assert manager.using([config("x"), config("y"), config("z")]) == {"1", "2"}
    manager.set(pod("a", "1", "z"))
    assert manager.using([config("x"), config("y")]) == {"2"}
    manager.remove(PodUID("2"))
    assert manager.using([config("y")]) == frozenset()
    assert manager.using([config("z")]) == {"1"}


def test_mirror_pods_are_kept_apart() -> None:
    manager = PodManager()
    own, shown = static("a", "s"), mirror("a", "m")
    manager.set(shown)
    assert manager.pod_of_mirror(shown) is None
    assert manager.resolve(PodUID("m")) == "m"
    manager.set(own)
    assert manager.pods() == (own,)
    assert manager.mirrors() == (shown,)
    assert manager.by_uid(PodUID("m")) is None
    assert manager.mirror_of(own) is shown
    assert current_mirror(manager, own) is shown
    assert current_mirror(manager, static("a", "s", "later")) is None, "the mirror pod shows the former version"
    assert manager.pod_of_mirror(shown) is own
    assert manager.resolve(PodUID("m")) == "s"
    assert manager.resolve(PodUID("s")) == "s"
    manager.remove(PodUID("s"))
    assert manager.pod_of_mirror(shown) is None
    manager.remove(PodUID("m"))
    assert manager.mirrors() == ()
    assert manager.mirror_of(own) is None


def test_mirror_pod_shows_one_version() -> None:
    assert is_mirror_of(mirror("a", "m", "h1"), static("a", "s", "h1"))
    assert not is_mirror_of(mirror("a", "m", "h1"), static("a", "s", "h2"))
    assert not is_mirror_of(mirror("b", "m", "h1"), static("a", "s", "h1"))
    assert not is_mirror_of(static("a", "m", "h1"), static("a", "s", "h1"))
    assert not is_mirror_of(mirror("a", "m", "h1"), pod("a", "p", **{ANNOTATION_HASH: "h1"}))
    other = static("a", "s", "h1")
    other = replace(other, metadata=replace(other.metadata, namespace="x"))
    assert not is_mirror_of(mirror("a", "m", "h1"), other)


@given(st.lists(st.tuples(st.sampled_from("123"), st.none() | st.sets(st.sampled_from("xyz")))))
def test_the_index_of_users_is_that_of_the_pods(steps: list[tuple[str, set[str] | None]]) -> None:
    manager, model = PodManager(), dict[str, set[str]]()
    for uid, uses in steps:
        if uses is None:
            manager.remove(PodUID(uid))
            model.pop(uid, None)
        else:
            manager.set(pod(f"p{uid}", uid, *sorted(uses)))
            model[uid] = uses
    for name in "xyz":
        assert manager.using([config(name)]) == {uid for uid, uses in model.items() if name in uses}
    assert set(manager.uids()) == set(model)
