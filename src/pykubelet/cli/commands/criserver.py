"""``pykubelet criserver``: run the container runtime server in the foreground."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import click

from pykubelet.base import grpc_core
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.inherited_signals import ignore_here_only
from pykubelet.base.log import setup
from pykubelet.base.loop import run_daemon
from pykubelet.base.notify import Notifier
from pykubelet.base.shutdown import Shutdown
from pykubelet.criserver.config import Settings, load_settings

_FILE = click.Path(path_type=Path, resolve_path=True)


@click.command(name="criserver")
@click.option("--config", type=_FILE, help="The server's configuration, TOML or YAML.")
@click.option("--root", type=_FILE, help="Directory of records, images and layers.")
@click.option("--run", type=_FILE, help="Directory of sockets, namespaces and bundles.")
@click.option("--listen", type=_FILE, help="The CRI socket (default: criserver.sock in the run directory).")
@click.option("--cgroup-manager", type=click.Choice(["cgroupfs", "systemd"]), help="How cgroups are created.")
@click.option("--kept", is_flag=True, hidden=True, help="Started by an agent, which may stop it to start another one.")
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--log-format", default="text", type=click.Choice(["text", "json"]))
def command(config: Path | None, kept: bool, log_level: str, log_format: str, **flags: Path | str | None) -> None:
    """Serve CRI v1 until SIGINT or SIGTERM; containers keep running afterwards."""
    setup(log_level.upper(), "json" if log_format == "json" else "text")
    given: dict[str, Any] = {name: str(value) if value else None for name, value in flags.items()}
    settings = load_settings(config, **given)
    if os.geteuid() != 0:
        raise Invalid("the runtime server must run as root: it creates namespaces, mounts and cgroups")
    grpc_core.configure("ERROR")
    with contextlib.suppress(KeyboardInterrupt):
        run_daemon(_run(settings, kept, Notifier.from_environment()))


async def _run(settings: Settings, kept: bool, notifier: Notifier) -> None:
    from pykubelet.criserver.main import run_criserver

    ignore_here_only()  # otherwise containers would inherit the ignored signals

    def stop() -> None:
        notifier.stopping()
        server.cancel()

    shutdown = Shutdown(stop)
    run = run_criserver(settings, shutdown.begin, kept, notifier.ready)
    server = asyncio.create_task(run, name="criserver")
    shutdown.on_signals()
    try:
        await server
    except asyncio.CancelledError:
        pass
    except BaseExceptionGroup as group:
        known, rest = group.split(PykubeletError)
        if rest is not None or known is None:
            raise
        error: BaseException = known
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
    finally:
        shutdown.begin()  # a thread may still keep the process alive
