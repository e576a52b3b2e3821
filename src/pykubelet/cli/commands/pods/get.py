"""``pykubelet get``: list or watch pods, events, ConfigMaps, Secrets, the node, images or problems."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.cli.arguments.kinds import KINDS, ObjectKind
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_completion import kinds_and_names, namespaces
from pykubelet.cli.arguments.targets import Target, parse_targets
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.output.listing import ListedObjects, ListSelection, listed
from pykubelet.cli.output.object_watch import print_table, table, watch_objects
from pykubelet.cli.output.output_form import (
    METAVAR,
    OutputForm,
    OutputParam,
    document,
    document_printer,
    form_names,
    print_names,
)
from pykubelet.cli.terminal import echo


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputOptions:
    """Options of the printed result."""

    form: OutputForm
    headed: bool
    all_namespaces: bool
    namespace: str
    sort_by: str

    def has_namespace(self, kind: ObjectKind) -> bool:
        """Return whether the table of a kind shows the namespaces."""
        return kind.namespaced and (self.all_namespaces or (kind.shows_namespace and not self.namespace))


@click.command(name="get")
@click.argument("words", nargs=-1, metavar="KIND [NAME]... | KIND/NAME...", shell_complete=kinds_and_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="Only this namespace (default: all).")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, each with its column.")
@click.option("-l", "--selector", default="", help="Only objects with these labels, for example app=web,tier!=db.")
@click.option("--field-selector", default="", help="Only objects with these fields, for example status.phase=Running.")
@click.option(
    "-o",
    "--output",
    "form",
    type=OutputParam(),
    metavar=METAVAR,
    default=OutputForm(),
    shell_complete=form_names,
    help="Output form.",
)
@click.option("--no-headers", is_flag=True, help="Print no headings.")
@click.option("--sort-by", default="", metavar="PATH", help="Sort by a field, for example .status.startTime.")
@click.option("--ignore-not-found", is_flag=True, help="An object that does not exist is no error.")
@click.option("-w", "--watch", is_flag=True, help="Go on with a row for each change.")
@click.option("--watch-only", is_flag=True, help="Print only changes from now on.")
@click.pass_obj
def command(
    socket: object,
    words: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    form: OutputForm,
    no_headers: bool,
    sort_by: str,
    ignore_not_found: bool,
    watch: bool,
    watch_only: bool,
) -> None:
    """List objects of the agent.

    KIND is one of pods (po), events (ev), configmaps (cm), secrets, nodes (no), images and problems, or several,
    separated by commas. With a NAME only that object, or the events of that pod. Tables of Secrets show sizes; their
    values are in `-o yaml`.

    Example: pykubelet get pods -l app=web -o jsonpath='{.items[*].status.podIP}'
    """
    if not words:
        raise click.UsageError(
            f"name a kind: {', '.join(kind.plural for kind in KINDS)}; for example: pykubelet get pods"
        )
    api = api_of(socket)
    space = "" if all_namespaces else namespace
    shown = _OutputOptions(
        form=form, headed=not no_headers, all_namespaces=all_namespaces, namespace=space, sort_by=sort_by
    )
    targets = parse_targets(words)
    selection = ListSelection(space, selector, field_selector)
    if (selector or field_selector) and any(target.names for target in targets):
        raise click.UsageError("name objects, or select them with -l or --field-selector")
    if watch or watch_only:
        _watch(api, targets, selection, shown, only_changes=watch_only)
        return
    results = [listed(api, target, selection) for target in targets]
    _print(results, shown, single=sum(len(target.names) for target in targets) == 1)
    if shown.form.is_table and any(result.kind.plural == "pods" for result in results):
        _banner(api)
    missing = [error for result in results for error in result.missing]
    if missing and not ignore_not_found:
        raise NotFound("\n".join(map(str, missing)))


def _print(results: list[ListedObjects], shown: _OutputOptions, *, single: bool) -> None:
    if shown.sort_by:
        from pykubelet.cli.plan.custom_columns import sorted_by

        results = [ListedObjects(r.kind, sorted_by(shown.sort_by, r.items), r.version, r.missing) for r in results]
    items: list[Any] = [item for result in results for item in result.items]
    form = shown.form
    if form.name == "name":
        for result in results:
            print_names(result.kind, result.items)
    elif form.is_table or form.name == "custom-columns":
        tables = []
        for result in results:
            headings, rows = table(result.kind, form, namespace=shown.has_namespace(result.kind))
            if result.items:
                tables.append((result.kind, headings, [row for item in result.items for row in rows(item)]))
            elif not result.missing:
                where = f" in namespace {shown.namespace}" if result.kind.namespaced and shown.namespace else ""
                echo(f"no {result.kind.plural} found{where}", err=True)
        if tables:
            print_table(tables, headed=shown.headed)
    elif items or not any(result.missing for result in results):
        document_printer(form)(document(items, single=single))


def _watch(
    api: LocalApi, targets: list[Target], selection: ListSelection, shown: _OutputOptions, *, only_changes: bool
) -> None:
    kind = targets[0].kind
    if len(targets) > 1 or not kind.watchable:
        raise click.UsageError("watch one kind: pods or events")
    first = listed(api, targets[0], selection)
    if first.missing:
        raise first.missing[0]
    path, query = selection.of_kind(kind)
    events: Iterable[tuple[str, Any]] = api.watch(path, resourceVersion=first.version, **query)
    if targets[0].names:
        names = {item["metadata"]["name"] for item in first.items} | set(targets[0].names)
        events = ((change, item) for change, item in events if _subject(kind, item) in names)
    if kind.plural == "pods" and shown.form.is_table:
        _banner(api)
        from pykubelet.cli.output.pull_progress import watch_with_pulls

        # The pods of the list may wait for images, too; their rows are not repeated.
        events = watch_with_pulls(chain((("ADDED", item) for item in first.items), events), api)
    namespace = shown.has_namespace(kind)
    watch_objects(first, events, shown.form, namespace=namespace, headed=shown.headed, only_changes=only_changes)


def _subject(kind: ObjectKind, item: Any) -> str:
    owner = item.get("involvedObject", {}) if kind.plural == "events" else item["metadata"]
    return str(owner.get("name", ""))


def _banner(api: LocalApi) -> None:
    """Say on standard error that manifests are broken: their pods are missing in the table, or are old versions."""
    try:
        items = api.get("/pykubelet/v1/problems")["items"]
    except PykubeletError:
        return
    if items:
        count = f"{len(items)} problems, the first" if len(items) > 1 else "1 problem"
        echo(f"{count}: {items[0]['message']} (see `pykubelet get problems`)", err=True)
