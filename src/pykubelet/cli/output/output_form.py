"""The forms of ``-o``: tables, names, documents, and kubectl's templates."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from pykubelet.base.suggestion import did_you_mean
from pykubelet.base.text import printable, printable_lines
from pykubelet.cli.arguments.kinds import ObjectKind, name_of
from pykubelet.cli.terminal import echo

FORMS: Final = ("wide", "name", "json", "yaml", "jsonpath", "custom-columns")
_WITH_ARGUMENT: Final = ("jsonpath", "custom-columns")
METAVAR: Final = "wide|name|json|yaml|jsonpath=…|custom-columns=…"


@dataclass(frozen=True, slots=True)
class OutputForm:
    """One form: its name (empty: the plain table), and the argument of a template."""

    name: str = ""
    argument: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the kind's own table is printed."""
        return self.name in ("", "wide")


def form_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the forms that begin like this, for a shell."""
    forms = (f"{name}=" if name in _WITH_ARGUMENT else name for name in FORMS)
    return [form for form in forms if form.startswith(incomplete)]


class OutputParam(click.ParamType[OutputForm]):
    """The value of ``-o``."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OutputForm:
        if isinstance(value, OutputForm):
            return value
        name, equals, argument = str(value).partition("=")
        if name not in FORMS:
            self.fail(f"{name!r} is unknown{did_you_mean(name, FORMS)} (known: {METAVAR})", param, ctx)
        if (name in _WITH_ARGUMENT) != bool(equals and argument):
            example = "write jsonpath='{.metadata.name}' or custom-columns=NAME:.metadata.name"
            self.fail(example if name in _WITH_ARGUMENT else f"{name} takes no argument", param, ctx)
        return OutputForm(name, argument)


def document(items: Sequence[Any], *, single: bool) -> Any:
    """Return one object by itself, or a List of objects."""
    if single and len(items) == 1:
        return items[0]
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def document_printer(form: OutputForm) -> Callable[[Any], None]:
    """Return a function that prints a document as JSON, YAML or by a template. Invalid: a wrong template."""
    if form.name == "json":
        return lambda value: click.echo(json.dumps(value, indent=2))
    if form.name == "yaml":
        import yaml

        return lambda value: click.echo(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False), nl=False)
    from pykubelet.cli.plan.jsonpath import Template

    template = Template(form.argument)
    # A script gets the value itself, a person its escaped form.
    shown = printable_lines if sys.stdout.isatty() else str
    return lambda value: click.echo(shown(template.render(value)), nl=False)


def print_names(kind: ObjectKind, items: Sequence[Any]) -> None:
    """Print ``KIND/NAME`` of each object."""
    for item in items:
        echo(f"{kind.singular}/{printable(name_of(item))}")
