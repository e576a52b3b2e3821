"""kubectl's JSONPath: the examples of its documentation, and the rules behind them."""

from typing import Any

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli.plan.custom_columns import parse_columns, sorted_by
from pykubelet.cli.plan.jsonpath import Template

# The document of https://kubernetes.io/docs/reference/kubectl/jsonpath/
NODES: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
            "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2"},
            "status": {
                "capacity": {"cpu": "8"},
                "addresses": [
                    {"type": "LegacyHostIP", "address": "127.0.0.2"},
                    {"type": "another", "address": "127.0.0.3"},
                ],
            },
        },
    ],
    "users": [
        {"name": "myself", "user": {}},
        {"name": "e2e", "user": {"username": "admin", "password": "secret"}},
    ],
}
PODS: dict[str, Any] = {
    "items": [
        {"n": 1, "ready": True, "ports": [80, 443], "note": None, "name": "a"},
        {"n": 2.5, "ready": False, "ports": [], "name": "b c"},
    ]
}


def shown(template: str, document: Any = NODES) -> str:
    return Template(template).render(document)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("kind is {.kind}", "kind is List"),
        ("{.kind}", "List"),
        ("{['kind']}", "List"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.users[0].name}", "myself"),
        ("{.items[*]['metadata.name', 'status.capacity']}", '127.0.0.1 127.0.0.2 {"cpu":"4"} {"cpu":"8"}'),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        (
            "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
            '[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] ',
        ),
        ("{range .items[*]}{.metadata.name}{'\\t'}{end}", "127.0.0.1\t127.0.0.2\t"),
        ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
    ],
)
def test_examples_of_the_documentation_print_their_text(template: str, text: str) -> None:
    assert shown(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{$.kind} {@.kind}", "List List"),
        ("{.items[-1].metadata.name}", "127.0.0.2"),
        ("{.items[0:1].metadata.name}", "127.0.0.1"),
        ("{.items[:].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.items[0:2:2].metadata.name}", "127.0.0.1"),
        ("{.items[-1:].metadata.name}", "127.0.0.2"),
        ("{.users[0,1].name}", "myself e2e"),
        ("{.users[*].user.*}", "admin secret"),
        ('{.items[0].metadata.labels["kubernetes.io/hostname"]}', "127.0.0.1"),
        ("{.items[0].metadata.labels['kubernetes\\.io/hostname']}", "127.0.0.1"),
        ("{.users[?(@.user.password)].name}", "e2e"),
        ("{.items[*].status.addresses[?(@.type=='another')].address}", "127.0.0.3"),
        ("{.items[?(@.status.capacity.cpu != '4')].metadata.name}", "127.0.0.2"),
        ("{.items[?(@.kind == $.items[0].kind)].metadata.name}", "127.0.0.1 127.0.0.2"),
        (
            "{range .items[*]}{range .status.addresses[*]}{.address},{end}{'\\n'}{end}",
            "127.0.0.1,\n127.0.0.2,127.0.0.3,\n",
        ),
        ("{.missing}{.kind.below}{.items[*].missing[0]}", ""),
        ("{\"a\\\"b\"}{'c\\'d'}", "a\"bc'd"),
        ("{.kind}{'\\n'}", "List\n"),
        (".kind", "List"),
    ],
)
def test_jsonpath_template_prints_the_text_of_kubectl(template: str, text: str) -> None:
    assert shown(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[?(@.n>1)].name}", "b c"),
        ("{.items[?(@.n>=1)].n}", "1 2.5"),
        ("{.items[?(@.n<=1)].n}", "1"),
        ("{.items[?(@.ready==true)].name}", "a"),
        ("{.items[?(@.ready!=true)].name}", "b c"),
        ("{.items[?(@.name=='b c')].ready}", "false"),
        ("{.items[0].ports}", "[80,443]"),
        ("{.items[*].ports[0]}", "80"),
        ("{.items[0].note}", ""),
        ("{.items[?(@.n==true)].name}", ""),
    ],
)
def test_filter_compares_values_of_the_same_kind(template: str, text: str) -> None:
    assert shown(template, PODS) == text


def test_an_index_out_of_bounds_is_an_error() -> None:
    with pytest.raises(NotFound, match="index 2, length 2"):
        shown("{.users[2].name}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.kind", "closing brace"),
        ("{range .items[*]}x", "range.*without.*end"),
        ("x{end}", "end.*without.*range"),
        ("{.items[}", "expected an index"),
        ("{.items[0}", "closing bracket"),
        ("{.items[?(@.n =~ 1)]}", "a filter compares"),
        ("{.items[?(@.n > 1 && @.n < 3)]}", "a filter compares"),
        ("{'open}", "closing '"),
        ("{.kind..}", "name of a field"),
        ("{.items[0:1:0]}", "positive"),
        ("{}}{|}", "path is missing"),
    ],
)
def test_mistakes_name_their_position(template: str, message: str) -> None:
    with pytest.raises(Invalid, match=rf"jsonpath: .*{message}.*at position \d+"):
        Template(template)


@pytest.mark.parametrize("template", ["{.items[?(@.n > 'x')]}", "{.items[0].name[0]}", "{.items[?(@.ports[*]==1)]}"])
def test_values_that_do_not_fit_are_errors(template: str) -> None:
    with pytest.raises(Invalid, match="jsonpath"):
        shown(template, PODS)


def test_custom_columns_print_the_values_of_their_paths() -> None:
    columns = parse_columns("NAME:.metadata.name,CPU:{.status.capacity.cpu},TYPES:status.addresses[*].type,NO:.no")
    assert columns.headings == ("NAME", "CPU", "TYPES", "NO")
    assert columns.row(NODES["items"][1]) == ("127.0.0.2", "8", "LegacyHostIP,another", "<none>")
    assert parse_columns("A:.users[0,1].name").row(NODES) == ("myself,e2e",)


@pytest.mark.parametrize("text", ["NAME", "NAME:", ":.a", "NAME:.a,B", "NAME:.a[", "A:.a b"])
def test_wrong_custom_columns_are_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        parse_columns(text)


def test_sort_by_knows_numbers_quantities_and_text() -> None:
    items = [{"v": "10"}, {"v": "9"}, {}, {"v": "1Gi"}, {"v": "100Mi"}, {"v": "x"}]
    assert [item.get("v") for item in sorted_by(".v", items)] == [None, "9", "10", "100Mi", "1Gi", "x"]
    assert [item["name"] for item in sorted_by("{.n}", list(reversed(PODS["items"])))] == ["a", "b c"]
