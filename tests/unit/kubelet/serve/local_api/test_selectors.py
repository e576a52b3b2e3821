"""Label and field selectors."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.serve.local_api.selectors import EVENT_FIELDS, POD_FIELDS, field_test, label_test
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import pod

LABELS = {"app": "web", "tier": "front", "example.com/x": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("none!=x", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("example.com/x", True),
        ("example.com/x=", True),
        ("app=", False),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("none in (db)", False),
        ("app notin (db,cache)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app in (web,db),tier!=back,!none", True),
        (" app = web , tier ", True),
    ],
)
def test_label_selector_matches_as_in_kubectl(selector: str, expected: bool) -> None:
    assert label_test(selector)(LABELS) is expected


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "a in (b", "=b", "a>3", "a in ((b))"])
def test_wrong_label_selectors(selector: str) -> None:
    with pytest.raises(Invalid, match="label selector"):
        label_test(selector)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web", True),
        ("metadata.name!=web", False),
        ("metadata.namespace=ns,metadata.name=web", True),
        ("metadata.name=web,status.phase=Running", False),
        ("status.phase!=Running", True),
        ("spec.restartPolicy=Always", True),
        ("spec.nodeName=", True),
    ],
)
def test_field_selector_matches_fields_of_pods(selector: str, expected: bool) -> None:
    assert field_test(selector, POD_FIELDS)(pod()) is expected


def test_field_selector_matches_fields_of_events() -> None:
    event = core.Event(
        involved_object=core.ObjectReference(kind="Pod", name="web"),
        type="Warning",
        source=core.EventSource(component="kubelet"),
    )
    test = field_test("involvedObject.name=web,involvedObject.kind=Pod,type=Warning,source=kubelet", EVENT_FIELDS)
    assert test(event)
    assert not field_test("reason=Started", EVENT_FIELDS)(event)
    assert field_test("source=", EVENT_FIELDS)(core.Event())


def test_wrong_field_selectors() -> None:
    with pytest.raises(Invalid, match=r"field label not supported: spec\.color"):
        field_test("spec.color=red", POD_FIELDS)
    with pytest.raises(Invalid, match="field selector"):
        field_test("metadata.name", POD_FIELDS)
