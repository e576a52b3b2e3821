"""``pykubelet uninstall``: stop the services and remove their systemd units."""

import os
from pathlib import Path

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.commands.node.install import UNIT_DIRECTORY
from pykubelet.cli.plan.systemd_units import AGENT_UNIT, SERVER_UNIT
from pykubelet.cli.service_manager import systemctl, systemd_runs
from pykubelet.cli.terminal import echo
from pykubelet.linux.errors import wrap


@click.command(name="uninstall")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and change nothing.")
@click.option(
    "--unit-dir",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True, readable=False),
    default=UNIT_DIRECTORY,
    show_default=True,
    help="Where the units are.",
)
def command(dry_run: bool, unit_dir: Path) -> None:
    """Stop both services and remove their units. Pods keep running, and all files stay: `reset` removes them."""
    present = [unit_dir / name for name in (AGENT_UNIT, SERVER_UNIT) if (unit_dir / name).is_file()]
    if not present:
        echo(f"no units in {unit_dir}")
        return
    if not dry_run and os.geteuid() != 0:
        raise Invalid("uninstall must run as root: it removes system units")
    managed = systemd_runs() and unit_dir == UNIT_DIRECTORY
    if managed and not dry_run:
        systemctl("disable", "--now", *(unit.name for unit in present))
    for unit in present:
        if not dry_run:
            try:
                unit.unlink()
            except OSError as error:
                raise wrap(error, f"cannot remove {unit}") from error
        echo(f"{'would remove' if dry_run else 'removed'} {unit}")
    if managed and not dry_run:
        systemctl("daemon-reload")
