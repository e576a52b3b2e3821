"""``pykubelet version``: print versions of the program, the agent and its runtime."""

import json
import platform

import click

import pykubelet
from pykubelet.base.errors import PykubeletError
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.client.local_api import NoPermission
from pykubelet.cli.terminal import echo


@click.command(name="version")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.pass_obj
def command(socket: object, output: str | None) -> None:
    """Print the version of this program, and of a running agent and its runtime."""
    versions = {"pykubelet": pykubelet.__version__, "python": platform.python_version()}
    try:
        answer = api_of(socket).get("/pykubelet/v1/version")
        versions["agent"] = answer.get("agent", "")
        versions["runtime"] = f"{answer.get('runtimeName', '')} {answer.get('runtimeVersion', '')}".strip()
    except NoPermission:
        versions["agent"] = "unknown, only root may ask it"
    except PykubeletError:
        versions["agent"] = "not running"
    if output == "json":
        echo(json.dumps(versions, indent=2))
        return
    for name, version in versions.items():
        echo(f"{name + ':':<11}{version}")
