"""The command tree. A command's module is imported on use, so that each command loads only its own libraries."""

import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

import pykubelet
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.cli.client.agent_socket import default_socket
from pykubelet.cli.client.rejected_request import RejectedRequest
from pykubelet.cli.command_group import SuggestingGroup
from pykubelet.cli.exit_status import ExitStatus

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
    "doctor": ("doctor", "Report what the machine lacks for running pods, and how to fix it."),
    "install": ("install", "Write systemd units for the agent and the runtime server."),
    "uninstall": ("uninstall", "Stop the services and remove their systemd units."),
    "reset": ("reset", "Remove all pods and everything else that the daemons have made."),
    "completion": ("completion", "Print the completion script for a shell."),
    "version": ("version", "Print versions."),
    "help": ("help", "Print the help of a command."),
}


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
    try:
        sys.exit(cli.main(prog_name="pykubelet", standalone_mode=False) or ExitStatus.DONE)
    except click.exceptions.Abort:
        sys.exit(ExitStatus.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PykubeletError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_status(error))
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has exited; buffered output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitStatus.PIPE_CLOSED)


def _status(error: PykubeletError) -> ExitStatus:
    """Return 2 for what the user has written wrongly, 1 for what the agent could not do."""
    wrong_usage = isinstance(error, Invalid) and not isinstance(error, RejectedRequest)
    return ExitStatus.USAGE if wrong_usage else ExitStatus.FAILED
