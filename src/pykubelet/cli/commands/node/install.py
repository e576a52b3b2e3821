"""``pykubelet install``: write the systemd units of the agent and the runtime server."""

import os
import sys
from pathlib import Path

import click

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.text import printable
from pykubelet.cli.arguments.followed_path import FollowedPath
from pykubelet.cli.plan.systemd_units import AGENT_UNIT, SERVER_UNIT, agent_unit, server_unit
from pykubelet.cli.service_manager import systemctl, systemd_runs
from pykubelet.cli.terminal import echo
from pykubelet.criserver.config import load_settings
from pykubelet.linux.errors import wrap

UNIT_DIRECTORY = Path("/etc/systemd/system")
_DIRECTORY = click.Path(path_type=Path, file_okay=False, resolve_path=True, readable=False)
_FILE = FollowedPath(dir_okay=False, exists=True)


@click.command(name="install")
@click.option("--now", is_flag=True, help="Also start both services now.")
@click.option("--dry-run", is_flag=True, help="Print the units, and change nothing.")
@click.option(
    "--manifests",
    type=FollowedPath(file_okay=False, readable=False),
    default=Path("/etc/pykubelet/manifests"),
    show_default=True,
    help="Directory of manifests; it is created.",
)
@click.option("--config", type=_FILE, help="A KubeletConfiguration v1beta1 file for the agent.")
@click.option("--criserver-config", type=_FILE, help="The configuration of the runtime server, TOML or YAML.")
@click.option("--unit-dir", type=_DIRECTORY, default=UNIT_DIRECTORY, show_default=True, help="Where the units go.")
def command(
    now: bool, dry_run: bool, manifests: Path, config: Path | None, criserver_config: Path | None, unit_dir: Path
) -> None:
    """Write systemd units, so that the agent and the runtime server start with the machine."""
    units = _units(manifests, config, criserver_config)
    if dry_run:
        for name, text in units.items():
            echo(f"# {unit_dir / name}\n{text}")
        return
    if os.geteuid() != 0:
        raise Invalid("install must run as root: it writes system units")
    if now and not systemd_runs():
        raise Invalid("--now: systemd does not run on this machine; without --now the units are only written")
    try:
        manifests.mkdir(mode=0o700, parents=True, exist_ok=True)
        unit_dir.mkdir(parents=True, exist_ok=True)
        for name, text in units.items():
            write_atomic(unit_dir / name, text.encode(), 0o644)
            echo(f"wrote {unit_dir / name}")
    except OSError as error:
        raise wrap(error, f"cannot write the units into {unit_dir}") from error
    if not systemd_runs() or unit_dir != UNIT_DIRECTORY:
        echo(f"not enabled; on a machine with systemd: systemctl enable --now {' '.join(units)}")
        return
    systemctl("daemon-reload")
    systemctl("enable", *units)
    echo("both services start with the machine")
    if now:
        try:
            systemctl("restart", *units)
        except Permanent as error:
            raise Permanent(f"{error}; see `journalctl -u {AGENT_UNIT} -u {SERVER_UNIT}`") from error
        echo(f"both services run; put manifests into {manifests}, then `pykubelet get pods`")


def _units(manifests: Path, config: Path | None, criserver_config: Path | None) -> dict[str, str]:
    """Return the units by name, the server's first. Invalid: the runtime server's configuration is, or a path."""
    for flag, path in (("--manifests", manifests), ("--config", config), ("--criserver-config", criserver_config)):
        if path is not None and printable(str(path)) != str(path):
            raise Invalid(f"{flag} {printable(str(path))}: the path has characters that a unit cannot hold; rename it")
    # -P: import no modules from the current directory.
    program = (sys.executable, "-P", "-m", "pykubelet.cli")
    server = load_settings(criserver_config)
    of_server = ("--config", str(criserver_config)) if criserver_config else ()
    of_agent = ("--config", str(config)) if config else ()
    endpoint = f"unix://{server.socket}"
    return {
        SERVER_UNIT: server_unit((*program, "criserver", *of_server)),
        AGENT_UNIT: agent_unit(
            (*program, "run", "--manifests", str(manifests), "--container-runtime-endpoint", endpoint, *of_agent)
        ),
    }
