"""The Go kubelet's flags that kubeadm, its unit file and users pass set the right fields."""

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid
from pykubelet.cli.app import cli
from pykubelet.cli.arguments.kubelet_flags import FIELDS, kubelet_options, take_kubelet_flags
from pykubelet.cli.commands.node.run import _log_settings
from pykubelet.kubelet.config import KubeletConfiguration, load_configuration


def parsed(*arguments: str) -> tuple[dict[str, object], list[str]]:
    """Return the fields that the flags set."""
    found: list[dict[str, Any]] = []

    @click.command()
    @kubelet_options
    def command(**flags: Any) -> None:
        found.append(flags)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    taken = take_kubelet_flags(found[0])
    assert not found[0], "all are taken"
    return taken


def test_every_flag_names_a_field() -> None:
    def fields(kind: Any, prefix: str) -> dict[str, Any]:
        found = {}
        for field in msgspec.structs.fields(kind):
            name = f"{prefix}{field.encode_name}"
            found[name] = field.type
            if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                found |= fields(field.type, f"{name}.")
        return found

    known = fields(KubeletConfiguration, "")
    assert [path for _, path in FIELDS.values() if path not in known] == []


def test_flag_values_by_kind() -> None:
    assert parsed(
        *("--fail-swap-on=false", "--anonymous-auth", "--max-pods=7", "--cluster-dns", "10.0.0.1,10.0.0.2"),
        *("--eviction-hard=memory.available<1Gi,nodefs.available<5%", "--kube-reserved=cpu=1,memory=1Gi"),
        *("--feature-gates=A=true,B=false", "--cgroup-driver=cgroupfs", "--pod-infra-container-image=pause:3"),
    ) == (
        {
            "authentication.anonymous.enabled": True,
            "cgroupDriver": "cgroupfs",
            "clusterDNS": ["10.0.0.1", "10.0.0.2"],
            "evictionHard": {"memory.available": "1Gi", "nodefs.available": "5%"},
            "failSwapOn": False,
            "featureGates": {"A": True, "B": False},
            "kubeReserved": {"cpu": "1", "memory": "1Gi"},
            "maxPods": 7,
        },
        ["pod-infra-container-image"],
    )


def test_without_flags_nothing_is_set() -> None:
    assert parsed() == ({}, [])


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max-pods=many", "--max-pods: 'many' is not a whole number"),
        ("--fail-swap-on=maybe", "neither true nor false"),
        ("--kube-reserved=cpu", "'cpu' is not NAME=VALUE"),
        ("--eviction-hard=memory.available=1Gi", "is not NAME<VALUE"),
    ],
)
def test_invalid_kubelet_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parsed(flag)


def test_flags_override_only_their_own_fields_of_files(tmp_path: Path) -> None:
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    file, directory = tmp_path / "config.yaml", tmp_path / "conf.d" / "deeper"
    directory.mkdir(parents=True)
    file.write_text(f"{head}maxPods: 1\nauthentication: {{x509: {{clientCAFile: /ca}}, webhook: {{cacheTTL: 1s}}}}\n")
    (directory / "10-more.conf").write_text(f"{head}maxPods: 2\n")
    assert load_configuration(file, tmp_path / "conf.d").max_pods == 2
    flags = {"maxPods": 3, "authentication.webhook.cacheTTL": "9s", "evictionHard": {"a": "1"}}
    found = load_configuration(file, tmp_path / "conf.d", flags)
    assert (found.max_pods, found.authentication.webhook.cache_ttl) == (3, "9s")
    assert found.authentication.x509.client_ca_file == "/ca"
    with pytest.raises(Invalid, match="flags: port:"):
        load_configuration(None, None, {"port": -1})


@pytest.mark.parametrize(
    ("flags", "config", "expected"),
    [
        ((None, None), {}, ("info", "text")),
        ((None, None), {"verbosity": 0, "format": "json"}, ("info", "json")),
        ((None, None), {"verbosity": 5}, ("debug", "text")),
        (("warning", "text"), {"verbosity": 5, "format": "json"}, ("warning", "text")),
    ],
)
def test_log_settings_come_from_flags_or_configuration(
    flags: tuple[str | None, str | None], config: dict[str, object], expected: tuple[str, str]
) -> None:
    assert _log_settings(*flags, config) == expected


def test_version_output_is_readable_by_kubeadm() -> None:
    result = CliRunner().invoke(cli, ["run", "--version"])
    assert (result.exit_code, result.output) == (0, "Kubernetes v1.36.0\n")
