"""``pykubelet criserver``: run the container runtime server in the foreground."""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from pykubelet.base.daemon import grpc_core
from pykubelet.base.daemon.lean_imports import lean_imports
from pykubelet.base.daemon.log import setup
from pykubelet.base.daemon.loop import run_daemon
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.run_until_signal import ignore_here_only, run_until_signal
from pykubelet.base.daemon.shutdown import ignore_early_reloads
from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.followed_path import FollowedPath
from pykubelet.criserver.config import load_settings
from pykubelet.criserver.reload.config_reloader import ConfigInput
from pykubelet.criserver.reload.config_watch import stamps_of
from pykubelet.linux import memory

_FILE = click.Path(path_type=Path, resolve_path=True)


@click.command(name="criserver")
@click.option("--config", type=FollowedPath(), help="The server's configuration, TOML or YAML.")
@click.option("--root", type=_FILE, help="Directory of records, images and layers.")
@click.option("--run", type=_FILE, help="Directory of sockets, namespaces and bundles.")
@click.option("--listen", type=_FILE, help="The CRI socket (default: criserver.sock in the run directory).")
@click.option("--cgroup-manager", type=click.Choice(["cgroupfs", "systemd"]), help="How cgroups are created.")
@click.option("--tracing-endpoint", default="", help="OTLP collector, unless the configuration names one.")
@click.option("--kept", is_flag=True, hidden=True, help="Started by an agent, which may stop it to start another one.")
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--log-format", default="text", type=click.Choice(["text", "json"]))
def command(
    config: Path | None,
    kept: bool,
    tracing_endpoint: str,
    log_level: str,
    log_format: str,
    **flags: Path | str | None,
) -> None:
    """Serve CRI v1 until SIGINT or SIGTERM; containers keep running afterwards. SIGHUP reloads the configuration."""
    memory.limit_arenas()
    ignore_early_reloads()
    setup(log_level.upper(), "json" if log_format == "json" else "text")
    given: dict[str, Any] = {name: str(value) if value else None for name, value in flags.items()}
    traces = {"tracing": {"endpoint": tracing_endpoint}} if tracing_endpoint else {}
    read = partial(load_settings, config, defaults=traces, **given)
    stamps = stamps_of([config] if config else [])
    source = ConfigInput(read=read, started=read(), file=config, stamps=stamps)
    if os.geteuid() != 0:
        raise Invalid("the runtime server must run as root: it creates namespaces, mounts and cgroups")
    grpc_core.configure("ERROR")
    ignore_here_only()  # otherwise containers would inherit the ignored signals
    notifier = Notifier.from_environment()
    server = partial(_server, source, kept, notifier)
    with contextlib.suppress(KeyboardInterrupt):
        run_daemon(run_until_signal(server, notifier, name="criserver", reload=source.requested))


async def _server(source: ConfigInput, kept: bool, notifier: Notifier, failed: Callable[[], None]) -> None:
    with lean_imports():
        from pykubelet.criserver.main import run_criserver

    await run_criserver(source, failed, notifier, kept=kept)
