"""The command tree. A command's module is imported on use, so that each command loads only its own libraries."""

import contextlib
import importlib
import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

import pykubelet
from pykubelet.base.daemon.lean_imports import lean_imports
from pykubelet.cli.client.agent_socket import default_socket
from pykubelet.cli.command_end import PipeClosed, leave, status_of
from pykubelet.cli.command_group import SuggestingGroup
from pykubelet.cli.exit_status import ExitStatus
from pykubelet.cli.terminal import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SECTIONS = {
    "The node": {
        "run": ("node.run", "Run the agent in the foreground."),
        "criserver": ("node.criserver", "Run the container runtime server in the foreground."),
        "image": ("node.image", "Pull, list, inspect, tag, remove, import and export images."),
        "config": ("node.config", "Show the agent's configuration, and what a change of each field needs."),
        "doctor": ("node.doctor", "Report what the machine lacks for running pods, and how to fix it."),
        "install": ("node.install", "Write systemd units for the agent and the runtime server."),
        "uninstall": ("node.uninstall", "Stop the services and remove their systemd units."),
        "reset": ("node.reset", "Remove all pods and everything else that the daemons have made."),
    },
    "Manifests": {
        "apply": ("manifests.apply", "Create or change pods, ConfigMaps and Secrets."),
        "delete": ("manifests.delete", "Delete pods, ConfigMaps and Secrets."),
        "wait": ("manifests.wait", "Wait until pods are ready, completed or deleted."),
        "diff": ("manifests.diff", "Show what applying manifests would change."),
        "check": ("manifests.check", "Check manifests without running them."),
        "run-once": ("manifests.run_once", "Run a pod to its end and exit with its status."),
    },
    "Pods": {
        "get": ("pods.get", "List pods, events, ConfigMaps, Secrets, the node, images or problems."),
        "describe": ("pods.describe", "Show a pod in detail, with its events."),
        "logs": ("pods.logs", "Print a container's log."),
        "exec": ("pods.exec", "Run a command in a container."),
        "cp": ("pods.cp", "Copy files from and to containers."),
        "attach": ("pods.attach", "Show a running container's own streams."),
        "port-forward": ("pods.port_forward", "Connect local ports to ports of a pod."),
        "top": ("pods.top", "Show the CPU and memory that pods or the node use."),
        "explain": ("pods.explain", "Show why a pod is in its state, from the agent's own decisions."),
        "timeline": ("pods.timeline", "Show where a pod's start-up time went."),
        "restart": ("pods.restart", "Restart a container, or a whole pod."),
        "retry": ("pods.retry", "Skip the back-off of a crashed container or an image pull."),
    },
    "Command line": {
        "completion": ("completion", "Print the completion script for a shell."),
        "version": ("version", "Print versions."),
        "help": ("help", "Print the help of a command."),
    },
}
"""The commands by the sections of the help: the module below ``cli/commands``, and what the command does."""
_COMMANDS = {name: row for section in _SECTIONS.values() for name, row in section.items()}

_DAEMONS = frozenset(("run", "criserver"))
"""Commands that end as Python programs do, with their threads joined. A command line with such a name does, too."""


class _LazyGroup(SuggestingGroup):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # The library would end with 1.
            raise PipeClosed from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with lean_imports() if cmd_name in _DAEMONS else contextlib.nullcontext():
            module = importlib.import_module(f"pykubelet.cli.commands.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, "command", None)
        return command if isinstance(command, click.Command) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands and options that begin like this, without an import of any command."""
        from click.shell_completion import CompletionItem

        known = ((name, text) for name, (_, text) in _COMMANDS.items() if name.startswith(incomplete))
        commands = [CompletionItem(name, help=text) for name, text in known]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in section.items()])


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PYKUBELET"}
)
@click.option(
    "--socket",
    # Whether the user may connect is seen when a command does: others do without the agent.
    type=click.Path(path_type=Path, readable=False),
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
        # Errors of all kinds begin alike.
        echo(re.sub(r"^Error: ", "error: ", shown.getvalue(), count=1, flags=re.MULTILINE), err=True, nl=False)
        return error.exit_code
