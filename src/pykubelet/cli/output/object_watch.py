"""Prints the changes of objects as they happen: a table with fixed columns and a row per change, or documents."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from pykubelet.cli.arguments.kinds import ObjectKind, name_of
from pykubelet.cli.output.listing import ListedObjects
from pykubelet.cli.output.output_form import OutputForm, document_printer, print_names
from pykubelet.cli.plan.columns import Columns
from pykubelet.cli.plan.stable_columns import StableColumns
from pykubelet.cli.terminal import echo, terminal_width

Events = Iterable[tuple[str, Any]]
_OF_TIME = ("AGE", "LAST SEEN")
"""Columns that change by themselves."""


def table(
    kind: ObjectKind, form: OutputForm, *, namespace: bool
) -> tuple[Sequence[str], Callable[[Any], Sequence[Any]]]:
    """Return the headings of a table, and a function that returns an object's rows.

    Invalid: wrong custom columns.
    """
    if form.name == "custom-columns":
        from pykubelet.cli.plan.custom_columns import parse_columns

        columns = parse_columns(form.argument)
        return columns.headings, lambda item: [columns.row(item)]
    wide = form.name == "wide"
    headings = (*kind.headings, *(kind.wide if wide else ()))
    if not namespace:
        return headings, lambda item: kind.rows(item, wide)

    def rows(item: Any) -> Sequence[Any]:
        space = item.get("metadata", {}).get("namespace", "")
        return [(space, *row) for row in kind.rows(item, wide)]

    return ("NAMESPACE", *headings), rows


def print_table(tables: Sequence[tuple[ObjectKind, Sequence[str], Sequence[Sequence[str]]]], *, headed: bool) -> None:
    """Print tables of (kind, headings, rows); with several, names are preceded by their kind."""
    texts, width = [], terminal_width()
    for kind, headings, rows in tables:
        shown = rows
        if len(tables) > 1 and "NAME" in headings:
            at = list(headings).index("NAME")
            shown = [(*row[:at], f"{kind.singular}/{row[at]}", *row[at + 1 :]) for row in rows]
        columns = Columns(*headings) if headed else Columns(*[""] * len(headings))
        texts.append(columns.render(shown, width) if headed else columns.aligned(shown, width))
    echo("\n\n".join(texts))


def watch_objects(
    first: ListedObjects, events: Events, form: OutputForm, *, namespace: bool, headed: bool, only_changes: bool
) -> None:
    """Print the first objects and then their changes, until the events end or the user interrupts."""
    if not (form.is_table or form.name == "custom-columns"):
        _watch_documents(first, events, form, only_changes=only_changes)
        return
    headings, rows = table(first.kind, form, namespace=namespace)
    timeless = [index for index, heading in enumerate(headings) if heading not in _OF_TIME]
    columns = StableColumns(headings, headed=headed, width=terminal_width())
    last: dict[str, list[list[str]]] = {}
    beginning = [] if only_changes else [row for item in first.items for row in rows(item)]
    if beginning:
        echo(columns.render(beginning))
    for item in first.items:
        last[_identity(item)] = _timeless(rows(item), timeless)
    for kind, item in events:
        identity = _identity(item)
        shown = rows(_deleted(item) if kind == "DELETED" else item)
        cells = _timeless(shown, timeless)
        # Most changes of an object are in fields that the table does not show.
        if last.get(identity) != cells and not _ends_on(last.get(identity), cells):
            echo(columns.render(shown))
        last[identity] = cells
        if kind == "DELETED":
            del last[identity]


def _watch_documents(first: ListedObjects, events: Events, form: OutputForm, *, only_changes: bool) -> None:
    """Print each object at every change."""
    beginning: Iterator[tuple[str, Any]] = iter(() if only_changes else [("ADDED", item) for item in first.items])
    show = None if form.name == "name" else document_printer(form)
    for _, item in chain(beginning, events):
        if show is None:
            print_names(first.kind, [item])
        else:
            show(item)


def _ends_on(before: list[list[str]] | None, cells: list[list[str]]) -> bool:
    """Return whether a pod was being terminated and still is: only the number of its ready containers has changed."""
    return before is not None and all("Terminating" in row for row in (*before, *cells))


def _timeless(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    return [[row[index] for index in columns] for row in rows]


def _identity(item: Any) -> str:
    meta = item.get("metadata", {})
    return str(meta.get("uid") or f"{meta.get('namespace')}/{name_of(item)}")


def _deleted(item: Any) -> Any:
    if item.get("kind") != "Pod":
        return item
    status = {**item.get("status", {}), "reason": "Deleted", "containerStatuses": [], "initContainerStatuses": []}
    return {**item, "status": status, "metadata": {**item["metadata"], "deletionTimestamp": None}}
