"""``pykubelet reset``: remove everything that the agent and its runtime server have made on this machine."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.cli.embedded_server import embedded_server
from pykubelet.cli.reset.other_agents import check_others
from pykubelet.cli.reset.parts import parts_of
from pykubelet.cli.reset.places import Places
from pykubelet.cli.terminal import echo
from pykubelet.criserver.config import load_settings
from pykubelet.kubelet.config import load_configuration
from pykubelet.kubelet.config.settings import DEFAULT_ROOT, DEFAULT_RUN

_DIRECTORY = click.Path(path_type=Path, file_okay=False, resolve_path=True, readable=False)
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True)


@click.command(name="reset")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and change nothing.")
@click.option("--images", is_flag=True, help="Also remove the images of pykubelet's own runtime server.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--config", type=_FILE, help="The agent's KubeletConfiguration, if it has one.")
@click.option("--criserver-config", type=_FILE, help="The runtime server's configuration, if it has one.")
@click.option("--container-runtime-endpoint", default="", help="The other CRI runtime's socket, if the agent uses one.")
@click.option("--root-dir", type=_DIRECTORY, default=DEFAULT_ROOT, show_default=True, help="As that of `run`.")
@click.option("--run-dir", type=_DIRECTORY, default=DEFAULT_RUN, show_default=True, help="As that of `run`.")
@click.option("--container-log-dir", type=_DIRECTORY, default=Path("/var/log/containers"), show_default=True)
@click.pass_context
def command(ctx: click.Context, /, dry_run: bool, images: bool, yes: bool, **flags: Any) -> None:
    """Stop the agent and its runtime server, and remove all pods and everything that they have made on this machine.

    Manifests stay, and so do images without --images, installed packages and units (see `uninstall`).
    """
    places = _places(keep_images=not images, **flags)
    places.check()
    if os.geteuid() != 0:
        raise Invalid("reset must run as root: it removes mounts, cgroups and firewall rules")
    check_others(places.socket, places.cgroup_root)
    parts = parts_of(places)
    found = [item for part in parts for item in part.find()]
    if not found:
        echo("nothing to remove")
        return
    for item in found:
        echo(f"{'would remove' if dry_run else 'remove'} {item}")
    if dry_run:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("reset removes all pods and their data; confirm it with --yes")
        click.confirm("Remove all of this?", abort=True)
    failed = False
    for part in parts:
        try:
            part.remove()
        except PykubeletError as error:
            # The other parts are independent enough; a second attempt finds the rest.
            echo(f"error: {error}", err=True)
            failed = True
    left = [item for part in parts for item in part.find()]
    for item in left:
        echo(f"left: {item}", err=True)
    if not left and not failed:
        echo("all of it is removed")
    ctx.exit(1 if failed or left else 0)


def _places(
    *,
    keep_images: bool,
    config: Path | None,
    criserver_config: Path | None,
    container_runtime_endpoint: str,
    root_dir: Path,
    run_dir: Path,
    container_log_dir: Path,
) -> Places:
    """Combine flags and configurations as `run` does. Invalid: one of them cannot be read."""
    agent = load_configuration(config, None, {})
    endpoint = container_runtime_endpoint or agent.container_runtime_endpoint
    if endpoint:
        server = load_settings(criserver_config)
        if endpoint == f"unix://{server.socket}":
            endpoint = ""  # the own server, which has a unit of its own
    else:
        server = embedded_server(criserver_config, (root_dir, run_dir), agent.cgroup_driver).settings
    return Places(
        root=root_dir,
        run=run_dir,
        pod_logs=Path(agent.pod_logs_dir),
        container_logs=container_log_dir,
        cgroup_root=agent.cgroup_root,
        endpoint=endpoint,
        server=server,
        server_file=criserver_config,
        keep_images=keep_images,
    )
