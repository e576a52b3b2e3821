"""The version of a manifest in force, the winner among equal names, and the changes that the sync loop receives."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.desired.manifest import Manifest, parse
from pykubelet.kubelet.desired.sources.plan.effective_manifests import MergedPods, accept, assemble, merge, unreadable
from pykubelet.kubelet.desired.sources.source_types import FileRecord
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_SEEN, ANNOTATION_SOURCE, PodOp, Source
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta
from tests.unit.kubelet.desired.sources.samples import config_map, images, pod


def read(text: str, origin: str = "/m/a.yaml") -> Manifest:
    return parse(text.encode(), origin)


def names(record: FileRecord) -> list[str]:
    return [item.key.name for item in record.wanted]


def test_a_good_manifest_replaces_all_before_it() -> None:
    first = accept(None, read(pod("a") + pod("b")), "1")
    second = accept(first, read(pod("b", "new") + config_map("c")), "2")
    assert names(second) == ["b", "c"]
    assert second.kept == frozenset()
    assert second.digest == "2"


def test_an_emptied_manifest_takes_its_objects_away() -> None:
    assert names(accept(accept(None, read(pod("a")), "1"), read("# none\n"), "2")) == []


def test_broken_manifest_removes_nothing() -> None:
    first = accept(None, read(pod("a") + pod("b")), "1")
    broken = accept(first, read("a: ["), "2")
    assert names(broken) == ["a", "b"]
    assert [key.name for key in sorted(broken.kept, key=str)] == ["a", "b"]
    assert broken.manifest.problems


def test_the_good_part_of_a_broken_manifest_is_used() -> None:
    first = accept(None, read(pod("a", "old") + pod("b", "old") + pod("c", "old")), "1")
    partly = accept(first, read(pod("a", "new") + pod("b", "''") + pod("d", "new")), "2")
    content = assemble([partly], Source.FILE, "n")
    assert images(content) == {"a-n": "new", "d-n": "new", "b-n": "old", "c-n": "old"}
    assert [key.name for key in content.states[0].kept] == ["b", "c"]


def test_a_manifest_that_is_broken_from_the_start_gives_its_good_part() -> None:
    record = accept(None, read(pod("a") + pod("B")), "1")
    assert names(record) == ["a"]
    assert record.kept == frozenset()


def test_unreadable_manifest_removes_nothing_and_is_read_again() -> None:
    first = accept(None, read(pod("a")), "1")
    away = unreadable(first, "/m/a.yaml", "cannot be read")
    assert names(away) == ["a"]
    assert away.digest == ""
    assert [str(problem) for problem in away.manifest.problems] == ["/m/a.yaml: cannot be read"]
    assert names(unreadable(None, "/m/a.yaml", "x")) == []


def test_problems_of_a_file_are_in_the_order_of_its_lines() -> None:
    first = accept(None, read(pod("a"), "/m/1.yaml"), "1")
    second = accept(None, read(pod("a") + pod("B"), "/m/2.yaml"), "2")
    found = assemble([first, second], Source.FILE, "n").states[1].problems
    assert [each.object for each in found] == ["Pod default/a", "Pod default/B"]
    assert found[0].line < found[1].line


def test_of_equal_names_the_first_file_wins() -> None:
    first = accept(None, read(pod("a", "one") + config_map("c"), "/m/1.yaml"), "1")
    second = accept(None, read(pod("a", "two") + config_map("c") + pod("b"), "/m/2.yaml"), "2")
    content = assemble([first, second], Source.FILE, "n")
    assert images(content) == {"a-n": "one", "b-n": "busybox:1"}
    assert len(content.objects) == 1
    assert content.states[0].problems == ()
    assert [str(problem) for problem in content.states[1].problems] == [
        "/m/2.yaml:1: Pod default/a: metadata.name: is already given in /m/1.yaml:1, which is used; "
        "rename one of them or take it away",
        "/m/2.yaml:10: ConfigMap default/c: metadata.name: is already given in /m/1.yaml:10, which is used; "
        "rename one of them or take it away",
    ]
    assert [key.name for key in content.states[1].objects] == ["b"]


def test_a_pod_and_a_config_map_may_have_one_name() -> None:
    content = assemble([accept(None, read(pod("a") + config_map("a")), "1")], Source.FILE, "n")
    assert content.states[0].problems == ()
    assert (len(content.pods), len(content.objects)) == (1, 1)


def test_a_name_too_long_with_the_nodes_is_a_problem_of_its_manifest() -> None:
    content = assemble([accept(None, read(pod("a" * 250)), "1")], Source.FILE, "node")
    assert content.pods == ()
    assert "longer than 253" in content.states[0].problems[0].message


def test_duplicate_uid_is_a_problem() -> None:
    text = pod("a").replace("name: a\n", "name: a\n  uid: u\n") + pod("b").replace("name: b\n", "name: b\n  uid: u\n")
    content = assemble([accept(None, read(text), "1")], Source.FILE, "n")
    assert [each.metadata.name for each in content.pods] == ["a-n"]
    assert "has the uid of Pod default/a" in content.states[0].problems[0].message


def wanted(name: str, uid: str = "", image: str = "i", **meta: object) -> core.Pod:
    container = core.Container(name="c", image=image)
    metadata = replace(ObjectMeta(name=name, uid=uid or f"uid-{name}"), **meta)
    return core.Pod(metadata=metadata, spec=core.PodSpec(containers=(container,)))


def reported(updates: object) -> list[tuple[str, list[str]]]:
    assert isinstance(updates, tuple)
    return [(update.op.value, [pod.metadata.name for pod in update.pods]) for update in updates]


def test_first_set_of_a_source_adds_and_annotates_all_pods() -> None:
    merged = merge(None, [wanted("a"), wanted("b")], Source.FILE, "now")
    assert reported(merged.updates) == [("ADD", ["a", "b"])]
    annotations = merged.pods[PodUID("uid-a")].metadata.annotations
    assert annotations == {ANNOTATION_SOURCE: "file", ANNOTATION_SEEN: "now"}


def test_empty_first_set_of_a_source_is_reported() -> None:
    merged = merge(None, [], Source.HTTP, "now")
    assert reported(merged.updates) == [("ADD", [])]
    assert merged.updates[0].source is Source.HTTP
    assert merge(MergedPods(), [], Source.HTTP, "now").updates == ()


def test_changes_by_kind_and_in_order() -> None:
    before = merge(None, [wanted(name) for name in "abcdef"], Source.API, "then")
    deleted = datetime(2020, 1, 1, tzinfo=UTC)
    after = [
        wanted("a"),
        wanted("b", image="new"),
        wanted("c", labels={"x": "y"}),
        wanted("d", deletion_timestamp=deleted, deletion_grace_period_seconds=5),
        replace(wanted("e"), status=core.PodStatus(phase="Running")),
        wanted("g"),
    ]
    merged = merge(before, after, Source.API, "now")
    assert reported(merged.updates) == [
        ("REMOVE", ["f"]),
        ("ADD", ["g"]),
        ("UPDATE", ["b", "c"]),
        ("DELETE", ["d"]),
        ("RECONCILE", ["e"]),
    ]
    seen = {uid: pod.metadata.annotations[ANNOTATION_SEEN] for uid, pod in merged.pods.items()}
    assert seen == {f"uid-{name}": "now" if name == "g" else "then" for name in "abcdeg"}


def test_a_changed_static_pod_is_removed_before_it_is_added() -> None:
    before = merge(None, [wanted("a", "1")], Source.FILE, "then")
    assert reported(merge(before, [wanted("a", "2")], Source.FILE, "now").updates) == [
        ("REMOVE", ["a"]),
        ("ADD", ["a"]),
    ]


def test_annotations_of_the_agent_are_no_change() -> None:
    before = merge(None, [wanted("a")], Source.FILE, "then")
    again = merge(before, [wanted("a", annotations={ANNOTATION_SEEN: "forged"})], Source.FILE, "now")
    assert again.updates == ()
    changed = merge(before, [wanted("a", annotations={"x": "y"})], Source.FILE, "now")
    assert reported(changed.updates) == [("UPDATE", ["a"])]


def test_identical_pod_object_is_not_compared() -> None:
    first = wanted("a")
    before = merge(None, [first, wanted("b")], Source.API, "then")
    again = merge(before, [first, wanted("b")], Source.API, "now")
    uid = PodUID("uid-a")
    assert again.updates == () and again.pods == before.pods
    assert again.pods[uid] is before.pods[uid]
    gone = merge(again, [wanted("b")], Source.API, "now")
    assert reported(gone.updates) == [("REMOVE", ["a"])]
    assert reported(merge(gone, [first, wanted("b")], Source.API, "now").updates) == [("ADD", ["a"])]


def test_a_uid_given_twice_counts_once() -> None:
    merged = merge(None, [wanted("a", "u"), wanted("b", "u")], Source.FILE, "now")
    assert reported(merged.updates) == [("ADD", ["a"])]


PODS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["i1", "i2"]))


@given(st.lists(PODS, max_size=6))
def test_updates_transform_any_state_into_the_next(states: list[dict[str, str]]) -> None:
    known = None
    reader: dict[str, core.Pod] = {}
    for state in states:
        merged = merge(known, [wanted(name, image=image) for name, image in state.items()], Source.FILE, "now")
        for update in merged.updates:
            for each in update.pods:
                if update.op is PodOp.REMOVE:
                    del reader[each.metadata.uid]
                else:
                    assert (each.metadata.uid in reader) == (update.op is PodOp.UPDATE)
                    reader[each.metadata.uid] = each
        assert reader == merged.pods
        assert {each.metadata.name: each.spec.containers[0].image for each in reader.values()} == state
        known = merged


META = "apiVersion: v1\nmetadata: {{name: a, labels: {{l: {label}}}}}\nimmutable: {fixed}\n"
CM = "kind: ConfigMap\n" + META + "data: {{k: {value}}}\n---\n"
SECRET = "kind: Secret\n" + META + "stringData: {{k: {value}}}\n---\n"


@pytest.mark.parametrize("kind", [CM, SECRET], ids=["ConfigMap", "Secret"])
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (("true", "1", "x"), ("true", "2", "x"), True),
        (("true", "1", "x"), ("false", "1", "x"), True),
        (("true", "1", "x"), ("true", "1", "y"), False),
        (("false", "1", "x"), ("true", "2", "x"), False),
        (("false", "1", "x"), ("false", "2", "x"), False),
    ],
)
def test_changed_immutable_object_keeps_its_old_version(
    kind: str, before: tuple[str, str, str], after: tuple[str, str, str], refused: bool
) -> None:
    old, new = (kind.format(fixed=f, value=f"'{v}'", label=label) for f, v, label in (before, after))
    first = accept(None, read(old), "1")
    second = accept(first, read(new + pod("p")), "2")
    assert sorted(names(second)) == ["a", "p"]
    assert (first.wanted[0].value in [item.value for item in second.wanted]) is refused
    assert len(second.manifest.problems) == refused
    if refused:
        text = str(second.manifest.problems[0])
        assert text.startswith("/m/a.yaml:1")
        assert "immutable: must not change while it is immutable" in text
        assert "rename it, or take it away" in text
        again = accept(second, read(old + pod("p")), "3")
        assert not again.manifest.problems


def test_immutable_object_may_be_removed_and_recreated() -> None:
    first = accept(None, read(CM.format(fixed="true", value="'1'", label="x")), "1")
    gone = accept(first, read(pod("p")), "2")
    assert not accept(gone, read(CM.format(fixed="true", value="'2'", label="x")), "3").manifest.problems


def test_a_readiness_gate_that_opens_is_a_change() -> None:
    gates = core.PodSpec(readiness_gates=(core.PodReadinessGate(condition_type="gate"),))

    def gated(**conditions: str) -> core.Pod:
        shown = tuple(core.PodCondition(type=name, status=status) for name, status in conditions.items())
        return replace(wanted("a"), spec=gates, status=core.PodStatus(conditions=shown))

    before = merge(None, [gated(gate="False")], Source.API, "then")
    assert reported(merge(before, [gated(gate="True")], Source.API, "now").updates) == [("UPDATE", ["a"])]
    other = merge(before, [gated(gate="False", theirs="True")], Source.API, "now")
    assert reported(other.updates) == [("RECONCILE", ["a"])]
