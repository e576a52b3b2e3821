"""Command lines of `apply` that are read without the library mean what the library takes them to mean."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykubelet.cli.app import cli
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.commands.manifests import apply
from pykubelet.cli.plan.quick_apply import quick_apply

READ = [
    "apply -f web.yaml",
    "apply --filename web.yaml -f other.yaml",
    "apply --filename=web.yaml",
    "apply -f -",
    "apply -f web.yaml --wait",
    "apply --wait --timeout 90 -f web.yaml",
    "apply --wait --timeout=2m -f web.yaml --timeout 1h",
    "apply -f web.yaml --timeout 0",
    "apply -f web.yaml --timeout 86400",
    "apply -f web.yaml --timeout 99999h",
    "apply -n apart -f web.yaml",
    "apply --namespace=apart -f web.yaml --namespace last",
    "--socket /run/a.sock apply -f web.yaml",
]
LEFT = [
    "",
    "get pods",
    "delete -f web.yaml",
    "diff -f web.yaml --wait",
    "--socket /run/a.sock",
    "--socket /run/a.sock delete -f web.yaml",
    "apply",
    "apply --help",
    "apply -h -f web.yaml",
    "apply web.yaml",
    "apply -f",
    "apply -f --wait",
    "apply -f=web.yaml",
    "apply -fweb.yaml",
    "apply --wai -f web.yaml",
    "apply -f web.yaml --dry-run",
    "apply -f web.yaml --timeout 1m30s",
    "apply -f web.yaml --timeout ever",
    "apply -f web.yaml --timeout -1",
    "apply -f web.yaml --timeout 100000",
    "apply -f web.yaml --timeout 000001m",
    f"apply -f web.yaml --timeout {'9' * 400}",
    f"apply -f web.yaml --timeout {'9' * 5000}h",
    "apply -f web.yaml -- other",
    "--socket=/run/a.sock apply -f web.yaml",
    "--socket",
]


@pytest.mark.parametrize("line", READ)
def test_line_that_is_read_quickly_means_the_same_as_with_the_library(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[LocalApi, tuple[Path, ...], dict[str, Any]]] = []
    monkeypatch.setattr(apply, "apply_files", lambda api, files, **options: called.append((api, files, options)))
    words = line.split()
    socket = [] if words[0] == "--socket" else ["--socket", "/run/of-the-test.sock"]
    result = CliRunner().invoke(cli, [*socket, *words])
    assert result.exit_code == 0, result.output
    [(api, files, options)] = called
    quick = quick_apply([*socket, *words], {})
    assert quick is not None
    assert quick.socket == str(api.path)
    assert quick.files == tuple(map(str, files))
    assert options == {"namespace": quick.namespace, "dry_run": False, "wait": quick.wait, "seconds": quick.seconds}


@pytest.mark.parametrize("line", LEFT)
def test_other_lines_are_left_to_the_library(line: str) -> None:
    assert quick_apply(line.split(), {}) is None


@pytest.mark.parametrize("digits", [12, 400, 5000])
def test_time_limit_that_is_too_long_is_a_usage_error(digits: int) -> None:
    result = CliRunner().invoke(cli, ["apply", "-f", "web.yaml", "--timeout", "9" * digits])
    assert result.exit_code == 2
    assert "is too long" in result.output


@pytest.mark.parametrize("variable", ["PYKUBELET_APPLY_WAIT", "_PYKUBELET_COMPLETE"])
def test_lines_are_left_to_the_library_with_its_variables(variable: str) -> None:
    assert quick_apply(["apply", "-f", "web.yaml"], {variable: "1"}) is None


def test_socket_is_that_of_the_environment_unless_the_line_names_one() -> None:
    environment = {"PYKUBELET_SOCKET": "/run/a.sock"}
    quick = quick_apply(["apply", "-f", "web.yaml"], environment)
    assert quick is not None and quick.socket == "/run/a.sock"
    quick = quick_apply(["--socket", "/run/b.sock", "apply", "-f", "web.yaml"], environment)
    assert quick is not None and quick.socket == "/run/b.sock"
