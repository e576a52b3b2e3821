"""The command tree. A command's module is imported on use, so that each command loads only its own libraries."""

import importlib
import io
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

import pykubelet
from pykubelet.cli.client.agent_socket import default_socket
from pykubelet.cli.command_group import SuggestingGroup
from pykubelet.cli.ending import leave, status_of
from pykubelet.cli.exit_status import ExitStatus
from pykubelet.cli.terminal import echo

_COMMANDS = {
    "run": ("run", "Run the agent in the foreground."),
    "criserver": ("criserver", "Run the container runtime server in the foreground."),
    "image": ("image", "Pull, list, inspect, tag, remove, import and export images."),
    "apply": ("apply", "Create or change pods, ConfigMaps and Secrets."),
    "delete": ("delete", "Delete pods, ConfigMaps and Secrets."),
    "wait": ("wait", "Wait until pods are ready, completed or deleted."),
    "diff": ("diff", "Show what applying manifests would change."),
    "run-once": ("run_once", "Run a pod to its end and exit with its status."),
    "restart": ("restart", "Restart a container, or a whole pod."),
    "retry": ("retry", "Skip the back-off of a crashed container or an image pull."),
    "get": ("get", "List pods, events, ConfigMaps, Secrets, the node, images or problems."),
    "describe": ("describe", "Show a pod in detail, with its events."),
    "logs": ("logs", "Print a container's log."),
    "exec": ("exec", "Run a command in a container."),
    "cp": ("cp", "Copy files from and to containers."),
    "attach": ("attach", "Show a running container's own streams."),
    "port-forward": ("port_forward", "Connect local ports to ports of a pod."),
    "top": ("top", "Show the CPU and memory that pods or the node use."),
    "explain": ("explain", "Show why a pod is in its state, from the agent's own decisions."),
    "timeline": ("timeline", "Show where a pod's start-up time went."),
    "check": ("check", "Check manifests without running them."),
    "config": ("config", "Show the agent's configuration, and what a change of each field needs."),
    "doctor": ("doctor", "Report what the machine lacks for running pods, and how to fix it."),
    "install": ("install", "Write systemd units for the agent and the runtime server."),
    "uninstall": ("uninstall", "Stop the services and remove their systemd units."),
    "reset": ("reset", "Remove all pods and everything else that the daemons have made."),
    "completion": ("completion", "Print the completion script for a shell."),
    "version": ("version", "Print versions."),
    "help": ("help", "Print the help of a command."),
}

_DAEMONS = frozenset(("run", "criserver"))
"""Commands that end as Python programs do, with their threads joined. A command line with such a name does, too."""


class _Lazy(SuggestingGroup):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"pykubelet.cli.commands.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, "command", None)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PYKUBELET"})
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    default=default_socket,
    show_default="that of the running agent",
    help="The agent's local socket.",
)
@click.version_option(
    pykubelet.__version__, message=f"pykubelet %(version)s, Kubernetes {pykubelet.KUBERNETES_VERSION}"
)
@click.pass_context
def cli(ctx: click.Context, socket: Path) -> None:
    """A Kubernetes node agent: runs pods from manifests on a container runtime.

    Every command has --help. Exit status: 0 done, 1 failed, 2 wrong usage, 124 time limit, 130 interrupted; exec exits
    with the status of its command, 126 or 127 if there is no such command.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    ctx.obj = socket


def main() -> NoReturn:
    """Run the command line and exit with an `ExitStatus`, or with the status of a command that was run."""
    status = status_of(_run)
    if not _DAEMONS.isdisjoint(sys.argv):
        sys.exit(status)
    leave(status)


def _run() -> int:
    try:
        return int(cli.main(prog_name="pykubelet", standalone_mode=False) or ExitStatus.DONE)
    except click.exceptions.Abort:
        return ExitStatus.INTERRUPTED
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue(), err=True, nl=False)
        return error.exit_code
