"""The table of a watch."""

from pykubelet.base.suggestion import closest, did_you_mean
from pykubelet.cli.plan.stable_columns import StableColumns

HEADINGS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")


def test_columns_keep_their_positions_for_later_rows() -> None:
    columns = StableColumns(HEADINGS)
    head, first = columns.render([("a", "0/1", "Pending", "0", "1s")]).splitlines()
    later = columns.render([("a-name-of-24-characters-", "10/10", "ContainerCreating", "1000", "2m10s")])
    for heading, *cells in zip(HEADINGS, ("a", "0/1", "Pending", "0", "1s"), later.split(), strict=True):
        for line, cell in zip((first, later), cells, strict=True):
            assert line[head.index(heading) :].startswith(cell)


def test_a_long_cell_moves_only_what_it_covers() -> None:
    columns = StableColumns(HEADINGS)
    head, _ = columns.render([("a", "0/1", "Pending", "0", "1s")]).splitlines()
    long = columns.render([("n" * 30, "1/1", "Running", "0", "3s")])
    assert long.startswith("n" * 30 + " 1/1 ")
    assert long[head.index("STATUS") :].split() == ["Running", "0", "3s"]
    assert long.index("Running") == head.index("STATUS")


def test_the_first_rows_decide_on_the_widths() -> None:
    lines = StableColumns(("NAME", "AGE")).render([("n" * 40, "1s"), ("b", "2s")]).splitlines()
    assert {line.index(word) for line, word in zip(lines, ("AGE", "1s", "2s"), strict=True)} == {43}


def test_columns_without_headings_print_rows_only() -> None:
    columns = StableColumns(("NAME", "AGE"), headed=False)
    assert columns.render([("a", "1s")]).split() == ["a", "1s"]


def test_suggestion_is_the_closest_word_if_it_is_close() -> None:
    assert closest("gett", ["get", "logs"]) == "get"
    assert closest("GET", ["get"]) == "get"
    assert closest("zzz", ["get"]) == ""
    assert did_you_mean("port-foward", ["port-forward", "logs"]) == "; did you mean port-forward?"
    assert did_you_mean("zzz", ["get"]) == ""
