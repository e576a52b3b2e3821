"""Arguments in kubectl's forms."""

import click
import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.pod_args import Limit, SwitchCommand, kind_and_names, pod_names_of


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["a"], [("Pod", "a")]),
        (["a", "b"], [("Pod", "a"), ("Pod", "b")]),
        (["pod", "a", "b"], [("Pod", "a"), ("Pod", "b")]),
        (["pod/a", "cm/b", "c"], [("Pod", "a"), ("ConfigMap", "b"), ("Pod", "c")]),
        (["secret", "a"], [("Secret", "a")]),
        (["pod"], [("Pod", "pod")]),
        ([], []),
    ],
)
def test_words_are_split_into_kind_and_names(words: list[str], found: list[tuple[str, str]]) -> None:
    assert kind_and_names(words) == found


def test_other_kinds_are_refused() -> None:
    with pytest.raises(Invalid, match="'deployment' is not a kind"):
        kind_and_names(["deployment/a"])
    with pytest.raises(Invalid, match="not a ConfigMap"):
        pod_names_of(["cm/a"])


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("1m30s", 90.0), ("45", 45.0), ("0", None), ("0s", None)])
def test_time_limit_of_zero_means_none(text: str, seconds: float | None) -> None:
    assert Limit().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-5s", "5 m"])
def test_limit_that_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Limit().convert(text, None, None)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["x"], "True x"),
        (["--wait=false", "x"], "False x"),
        (["--wait", "x"], "True x"),
        (["x", "--no-wait"], "False x"),
    ],
)
def test_switches_as_in_go(arguments: list[str], shown: str) -> None:
    @click.command(cls=SwitchCommand)
    @click.argument("name")
    @click.option("--wait/--no-wait", default=True)
    def command(name: str, wait: bool) -> None:
        click.echo(f"{wait} {name}")

    assert CliRunner().invoke(command, arguments).output == f"{shown}\n"
