"""Flags of ``pykubelet run`` for node mode; their names are the Go kubelet's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.followed_path import FollowedPath
from pykubelet.kubelet.config import ClusterSettings

F = TypeVar("F", bound=Callable[..., Any])
_FILE = FollowedPath()

_OPTIONS: Final = (
    click.option("--kubeconfig", type=_FILE, help="The kubeconfig of this node; joins the node to that cluster."),
    click.option(
        "--bootstrap-kubeconfig",
        type=_FILE,
        help="Used to request the node's certificate if --kubeconfig does not exist.",
    ),
    click.option("--cert-dir", type=_FILE, default=None, help="Directory of certificates (default: ROOT/pki)."),
    click.option("--node-labels", multiple=True, help="Labels to register with: KEY=VALUE, comma separated."),
    click.option("--register-with-taints", default="", help="Taints to register with: KEY=VALUE:EFFECT, separated."),
    click.option("--provider-id", default="", help="The machine's id at its cloud provider."),
    click.option("--cloud-provider", default="", help="external: a cloud controller completes the node."),
)


def cluster_options(command: F) -> F:
    """Add the flags to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_cluster_settings(flags: dict[str, Any], root_dir: Path) -> tuple[ClusterSettings | None, dict[str, Any]]:
    """Remove these flags from ``flags``.

    Returns the cluster settings (None without a kubeconfig) and the configuration fields that the flags set. Raises
    Invalid.
    """
    kubeconfig, bootstrap = flags.pop("kubeconfig"), flags.pop("bootstrap_kubeconfig")
    cert_dir = flags.pop("cert_dir") or root_dir / "pki"
    labels = _labels(",".join(flags.pop("node_labels")))
    taints, provider_id = flags.pop("register_with_taints"), flags.pop("provider_id")
    cloud = flags.pop("cloud_provider")
    if cloud not in ("", "external"):
        raise Invalid(f"--cloud-provider: unknown provider {cloud!r}; use external, or omit the flag")
    overrides: dict[str, Any] = {}
    if taints:
        overrides["register_with_taints"] = _taints(taints)
    if kubeconfig is None:
        if bootstrap is not None:
            raise Invalid("--bootstrap-kubeconfig requires --kubeconfig, the file to write")
        return None, overrides
    return ClusterSettings(kubeconfig, bootstrap, cert_dir, labels, provider_id, cloud == "external"), overrides


def _labels(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, _, value = part.partition("=")  # as upstream, KEY alone has an empty value
        if not key:
            raise Invalid(f"--node-labels: {part!r} is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _taints(text: str) -> tuple[Any, ...]:
    from pykubelet.models.core_v1 import Taint

    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        rest, colon, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise Invalid(
                f"--register-with-taints: {part!r} is not KEY=VALUE:EFFECT; "
                "EFFECT is NoSchedule, PreferNoSchedule or NoExecute"
            )
        found.append(Taint(key=key, value=value, effect=effect))
    return tuple(found)
