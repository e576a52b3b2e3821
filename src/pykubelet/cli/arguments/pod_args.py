"""Arguments that several commands share: names of pods in kubectl's forms, time limits, files of manifests."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pykubelet.base.errors import Invalid
from pykubelet.base.units import parse_duration
from pykubelet.cli.arguments.lookup import FoundPod, find_pod, list_pods
from pykubelet.cli.client.local_api import LocalApi

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("configmap", "configmaps", "cm"), "ConfigMap"),
    **dict.fromkeys(("secret", "secrets"), "Secret"),
}
F = TypeVar("F", bound=Callable[..., Any])


class Limit(click.ParamType[float | None]):
    """A time limit such as ``30s`` or ``5m``, or a number of seconds, as float; 0 means no limit (None)."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value is None or isinstance(value, float):
            return value
        text = f"{value}s" if str(value).isdecimal() else str(value)
        try:
            seconds = parse_duration(text)
        except Invalid as error:
            self.fail(str(error), param, ctx)
        if seconds < 0:
            self.fail(f"{value} is negative", param, ctx)
        return seconds or None


def files_option(command: F) -> F:
    """Add ``-f``, which may be repeated."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        type=click.Path(path_type=Path, allow_dash=True),
        metavar="FILE|DIR|-",
        help="A manifest, a directory of manifests, or - for standard input; may be repeated.",
    )(command)


class SwitchCommand(click.Command):
    """A command whose switches are also given as in Go: ``--wait=false`` for ``--no-wait``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        return super().parse_args(ctx, [_switch(arg, names) for arg in args])


def _switch(arg: str, names: set[str]) -> str:
    name, _, value = arg.partition("=")
    opposite = f"--no-{name.removeprefix('--')}"
    if name in names and opposite in names and value in ("true", "false"):
        return name if value == "true" else opposite
    return arg


def selection_options(command: F) -> F:
    """Add ``-n``, ``-l`` and ``--all``."""
    command = click.option("--all", "everything", is_flag=True, help="All pods of the agent.")(command)
    command = click.option("-l", "--selector", default="", help="Pods with these labels, for example app=web.")(command)
    return click.option("-n", "--namespace", default="", help="The pods' namespace (default: any).")(command)


def kind_and_names(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return kind and name of each object named as ``NAME``, ``KIND/NAME`` or ``KIND NAME…``.

    Invalid: an unknown kind.
    """
    kind = "Pod"
    if len(words) > 1 and "/" not in words[0] and words[0] in _KINDS:
        kind, words = _KINDS[words[0]], words[1:]
    found = []
    for word in words:
        prefix, slash, name = word.rpartition("/")
        if slash and prefix not in _KINDS:
            remedy = "files are named with -f" if Path(word).is_file() else "use pod, configmap or secret"
            raise Invalid(f"{word!r}: {prefix!r} is not a kind of object here; {remedy}")
        found.append((_KINDS[prefix] if slash else kind, name))
    return found


def pod_names_of(words: Sequence[str]) -> list[str]:
    """Return the names of pods given as ``NAME``, ``pod/NAME`` or ``pod NAME…``. Invalid: another kind."""
    found = kind_and_names(words)
    for kind, name in found:
        if kind != "Pod":
            raise Invalid(f"{name}: only pods are possible here, not a {kind}")
    return [name for _, name in found]


def one_pod(words: Sequence[str]) -> str:
    """Return the name of the only pod given as ``NAME``, ``pod/NAME`` or ``pod NAME``. UsageError: there are several.

    Invalid: another kind.
    """
    names = pod_names_of(words)
    if len(names) != 1:
        raise click.UsageError(f"name one pod; these are {', '.join(names)}")
    return names[0]


def without_kind(words: Sequence[str], *, selects: bool) -> Sequence[str]:
    """Return the words of a command line; where ``-l`` or ``--all`` selects pods, the word ``pods`` alone is left out.

    UsageError: it is another kind, of which nothing can be selected.
    """
    if not selects or len(words) != 1 or words[0] not in _KINDS:
        return words
    if _KINDS[words[0]] != "Pod":
        raise click.UsageError(f"only pods can be selected with -l or --all; name the {words[0]}")
    return ()


def chosen_pods(
    api: LocalApi, words: Sequence[str], namespace: str, *, selector: str = "", everything: bool = False
) -> list[FoundPod]:
    """Return the pods that the user names, or selects with ``-l`` or ``--all``.

    UsageError: none or both are given. NotFound: a pod does not exist.
    """
    words = without_kind(words, selects=bool(selector) or everything)
    if bool(words) + bool(selector) + everything != 1:
        raise click.UsageError("name pods, or select them with -l or --all")
    if words:
        return [find_pod(api, name, namespace) for name in pod_names_of(words)]
    return list_pods(api, namespace, selector=selector)
