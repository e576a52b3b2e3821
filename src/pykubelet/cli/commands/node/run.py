"""``pykubelet run``: run the agent in the foreground."""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from msgspec.structs import replace

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.daemon import grpc_core
from pykubelet.base.daemon.lean_imports import lean_imports
from pykubelet.base.daemon.log import Format, setup
from pykubelet.base.daemon.loop import run_daemon
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.open_files import limit_open_files
from pykubelet.base.daemon.run_until_signal import run_until_signal
from pykubelet.base.daemon.shutdown import ignore_early_reloads
from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.base.text import without_credentials
from pykubelet.base.tracing import DEFAULT_ENDPOINT
from pykubelet.cli.arguments.cluster_flags import cluster_options, take_cluster_settings
from pykubelet.cli.arguments.followed_path import FollowedPath
from pykubelet.cli.arguments.kubelet_flags import kubelet_options, take_kubelet_flags
from pykubelet.cli.arguments.lock_flags import lock_options, take_lock
from pykubelet.cli.client.agent_socket import linked
from pykubelet.cli.terminal import echo
from pykubelet.kubelet.compose.live_settings.held_ports import HeldPorts, held_ports
from pykubelet.kubelet.config import KubeletConfiguration, Settings, load_configuration, unusable_gates, without_effect
from pykubelet.kubelet.config.credential_providers import load_credential_providers
from pykubelet.kubelet.config.node_identity import given_ips, node_ips, node_name
from pykubelet.kubelet.config.settings import DEFAULT_ROOT, DEFAULT_RUN
from pykubelet.kubelet.reload.config_input import ConfigInput, stamp_of
from pykubelet.linux import memory
from pykubelet.linux.filesystems.mounts import make_shared
from pykubelet.linux.system import set_oom_score_adj

if TYPE_CHECKING:
    from pykubelet.criserver.embedded import SupervisorConfig

_log = logging.getLogger(__name__)
_DIRECTORY = click.Path(path_type=Path, file_okay=False, resolve_path=True, readable=False)
_FILE = FollowedPath()
_SECRET = ("manifest-url-header", "storage-driver-password")
"""Flags whose values are not shown."""
_DEBUG_FROM = 4
"""From this verbosity on the Go kubelet logs single steps."""


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags as given."""

    manifests: Path | None
    manifest_url: str
    config: Path | None
    config_dir: Path | None
    container_runtime_endpoint: str
    criserver_config: Path | None
    image_service_endpoint: str
    root_dir: Path
    run_dir: Path
    container_log_dir: Path
    node_name: str
    node_ip: Sequence[str]
    image_credential_provider_config: str
    image_credential_provider_bin_dir: str


@click.command(name="run", context_settings={"token_normalize_func": lambda name: name.replace("_", "-")})
@click.option("--manifests", type=_FILE, help="Directory (or file) of manifests; also staticPodPath.")
@click.option("--manifest-url", default="", help="URL of a manifest; also staticPodURL.")
@click.option("--config", type=_FILE, help="A KubeletConfiguration v1beta1 file.")
@click.option(
    "--config-dir",
    type=FollowedPath(file_okay=False, readable=False),
    help="Directory of *.conf files laid over the configuration file.",
)
@click.option(
    "--container-runtime-endpoint",
    default="",
    help="Another CRI runtime's socket (default: pykubelet's own server).",
)
@click.option(
    "--criserver-config", type=_FILE, help="The configuration of pykubelet's own runtime server, TOML or YAML."
)
@click.option("--image-service-endpoint", default="", help="The CRI image service's socket, if it is another one.")
@click.option(
    "--root-dir", type=_DIRECTORY, default=DEFAULT_ROOT, show_default=True, help="Directory of pods and state."
)
@click.option(
    "--run-dir", type=_DIRECTORY, default=DEFAULT_RUN, show_default=True, help="Directory of the local socket."
)
@click.option(
    "--container-log-dir",
    type=_DIRECTORY,
    default=Path("/var/log/containers"),
    show_default=True,
    help="Links to logs.",
)
@click.option(
    "--node-name", "--hostname-override", "node_name", default="", help="The node's name (default: the host name)."
)
@click.option(
    "--image-credential-provider-config", default="", help="A CredentialProviderConfig file, or a directory of them."
)
@click.option(
    "--image-credential-provider-bin-dir", default="", help="Directory of the credential provider plugins' executables."
)
@click.option("--node-ip", multiple=True, help="The node's address, or one of each family; also separated by a comma.")
@cluster_options
@kubelet_options
@lock_options
@click.option("-v", "--v", "verbosity", default="", hidden=True, help="The Go kubelet's verbosity; 4 and more: debug.")
@click.option("--version", is_flag=True, help="Print the implemented Kubernetes version.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Default: info.")
@click.option("--log-format", "--logging-format", type=click.Choice(["text", "json"]), help="Default: text.")
def command(log_level: str | None, log_format: str | None, verbosity: str, version: bool, **flags: object) -> None:
    """Run the agent in the foreground until SIGINT or SIGTERM; pods keep running afterwards."""
    if version:
        echo(f"Kubernetes {KUBERNETES_VERSION}")
        return
    memory.limit_arenas()
    ignore_early_reloads()
    if _number(verbosity) >= _DEBUG_FROM:
        log_level = "debug"
    setup((log_level or "info").upper(), "json" if log_format == "json" else "text")
    cluster, overrides = take_cluster_settings(flags, cast(Path, flags["root_dir"]))
    fields, ignored_flags = take_kubelet_flags(flags)
    lock = take_lock(flags)
    inputs = _Flags(**flags)  # type: ignore[arg-type]  # click checks names and types
    requested = Callbacks[[]]()
    reloads = _reloads(inputs, fields, overrides, in_cluster=cluster is not None, log=(log_level, log_format))
    config = reloads.started
    level, form = _log_settings(log_level, log_format, config.logging)
    setup(level.upper(), form)
    server = _server(inputs, config, ("--log-level", level, "--log-format", form))
    settings = replace(_settings(inputs, config, server), cluster=cluster, flags=_shown_flags())
    if cluster is None and not settings.node_ips:
        settings = replace(settings, node_ips=("127.0.0.1",))
    if ignored := without_effect(settings.config):
        _log.warning("configuration fields without effect in this version", extra={"fields": ", ".join(ignored)})
    if gates := list(unusable_gates(settings.config.feature_gates)):
        _log.warning("feature gates that the agent does not follow", extra={"gates": "; ".join(gates)})
    if ignored_flags:
        _log.warning("flags without effect in this version", extra={"flags": ", ".join(ignored_flags)})
    if config.static_pod_path and not Path(config.static_pod_path).exists():
        _log.warning("manifest directory missing: no pods until it is created", extra={"path": config.static_pod_path})
    grpc_core.configure("ERROR")
    notifier = Notifier.from_environment()
    given = replace(reloads, requested=requested, notifier=notifier)
    with lock, held_ports(settings) as held:  # as early as possible: the imports of the checks take most of the start
        _check(settings, given, held)
        _remove_leftovers(config.static_pod_path)
        agent = partial(_agent, settings, server, given, held)
        with contextlib.suppress(KeyboardInterrupt), linked(settings.socket):
            run_daemon(run_until_signal(agent, notifier, name="kubelet", reload=requested))


def _check(settings: Settings, given: ConfigInput, held: HeldPorts) -> None:
    """Check what the components require of the configuration, before anything changes.

    Raises Invalid, or Permanent: a port is taken.
    """
    with lean_imports():
        from pykubelet.kubelet.compose.live_settings.check_settings import check_ports, check_start

    try:
        check_start(settings)
    except Invalid as error:
        raise given.located(error) from error
    try:
        check_ports(settings, taken=held.ports)
    except Invalid as error:  # another program has the port: nothing is written wrongly
        raise Permanent(str(given.located(error))) from error


def _remove_leftovers(path: str) -> None:
    """Take what a killed ``run-once`` has left out of the manifest directory: its pod would run again."""
    from pykubelet.cli.changes.run_records import leftovers

    try:
        if not path or not leftovers(Path(path)):
            return
        from pykubelet.cli.changes.run_records import remove_leftovers
        from pykubelet.kubelet.desired.changes import ManifestDirectory

        for left in remove_leftovers(ManifestDirectory(path=Path(path), node_name="", kept={})):
            _log.info("object of a killed run-once removed", extra={"object": left})
    except (PykubeletError, OSError) as error:
        _log.warning("objects of a killed run-once not removed", extra={"path": path, "error": str(error)})


def _shown_flags() -> dict[str, str]:
    """Return all flags with their values, by the Go kubelet's names where it has them."""
    context = click.get_current_context()
    given = {param.opts[-1].lstrip("-"): context.params.get(param.name or "") for param in context.command.params}
    shown = {name: value if isinstance(value, tuple) else (value,) for name, value in given.items()}
    texts = {name: ",".join("" if each is None else str(each) for each in value) for name, value in shown.items()}
    texts["manifest-url"] = without_credentials(texts["manifest-url"])
    return texts | {name: "<masked>" for name in _SECRET if texts[name]}


def _log_settings(level: str | None, form: str | None, config: Mapping[str, object]) -> tuple[str, Format]:
    """Return level and format of the log: the flags' values, else those of the configuration's ``logging``."""
    verbosity = config.get("verbosity")
    wanted = "debug" if isinstance(verbosity, int) and verbosity >= _DEBUG_FROM else "info"
    return level or wanted, "json" if (form or config.get("format")) == "json" else "text"


def _number(verbosity: str) -> int:
    """Parse ``4`` or ``=4``, as ``-v=4`` is passed. Invalid: not a number."""
    text = verbosity.removeprefix("=") or "0"
    if not text.isdecimal():
        raise Invalid(f"-v: {text!r} is not a number")
    return int(text)


def _configuration(
    flags: _Flags, fields: Mapping[str, object], overrides: dict[str, Any], *, in_cluster: bool
) -> KubeletConfiguration:
    """Return the configuration with the flags applied. Invalid: there is no source of pods."""
    config = load_configuration(flags.config, flags.config_dir, fields)
    config = replace(
        config,
        static_pod_path=str(flags.manifests or config.static_pod_path),
        static_pod_url=flags.manifest_url or config.static_pod_url,
        **overrides,
    )
    if not config.static_pod_path and not config.static_pod_url and not in_cluster:
        raise Invalid(
            "nothing to run: name a directory of manifests with --manifests, a URL with --manifest-url, "
            "or a cluster with --kubeconfig"
        )
    return config


def _reloads(
    flags: _Flags,
    fields: Mapping[str, object],
    overrides: dict[str, Any],
    *,
    in_cluster: bool,
    log: tuple[str | None, str | None],
) -> ConfigInput:
    """Read the configuration; return it with what reads it again. Errors: as of `_configuration`.

    ``log``: level and format of the flags, which those of the configuration do not replace.
    """

    def read() -> KubeletConfiguration:
        return _configuration(flags, fields, overrides, in_cluster=in_cluster)

    def set_up_log(config: KubeletConfiguration) -> None:
        level, form = _log_settings(*log, config.logging)
        setup(level.upper(), form)

    stamp = stamp_of(flags.config, flags.config_dir)
    return ConfigInput(
        read=read,
        started=read(),
        stamp=stamp,
        file=flags.config,
        directory=flags.config_dir,
        set_up_log=set_up_log,
    )


def _server(flags: _Flags, config: KubeletConfiguration, log: tuple[str, ...]) -> "SupervisorConfig | None":
    """Return pykubelet's own runtime server; None when another runtime is named. Invalid: both are requested."""
    external = flags.container_runtime_endpoint or config.container_runtime_endpoint
    if not external:
        # Imported here, as below: an agent on another runtime does not need it.
        from pykubelet.cli.embedded_server import embedded_server

        traces = "" if config.tracing is None else config.tracing.endpoint or DEFAULT_ENDPOINT
        places = (flags.root_dir, flags.run_dir)
        return embedded_server(flags.criserver_config, places, config.cgroup_driver, log, traces)
    if flags.criserver_config:
        raise Invalid(
            f"--criserver-config is for pykubelet's own runtime server, but {external} is named; omit one of them"
        )
    return None


def _settings(flags: _Flags, config: KubeletConfiguration, server: "SupervisorConfig | None") -> Settings:
    """Combine flags, configuration and properties of the machine. Invalid names what is wrong or missing."""
    if os.geteuid() != 0:
        raise Invalid("the agent must run as root: it mounts volumes and creates cgroups")
    external = flags.container_runtime_endpoint or config.container_runtime_endpoint
    given = given_ips(flags.node_ip)
    return Settings(
        node_name=node_name(flags.node_name),
        config=config,
        runtime_endpoint=f"unix://{server.settings.socket}" if server else external,
        image_endpoint=flags.image_service_endpoint or config.image_service_endpoint,
        root_dir=flags.root_dir,
        run_dir=flags.run_dir,
        container_log_dir=flags.container_log_dir,
        node_ips=node_ips(given),
        given_ips=given,
        credential_providers=load_credential_providers(
            flags.image_credential_provider_config, flags.image_credential_provider_bin_dir
        ),
    )


async def _agent(
    settings: Settings,
    server: "SupervisorConfig | None",
    given: ConfigInput,
    held: HeldPorts,
    failed: Callable[[], None],
) -> None:
    with lean_imports():
        from pykubelet.kubelet.main import run_kubelet

    _set_oom_score(settings.config.oom_score_adj)
    _limit_open_files(settings.config.max_open_files)
    await blocking.call("root", _make_root_shared, settings.root_dir)
    if server is None:
        await run_kubelet(settings, failed, given=given, ports=held)
        return
    from pykubelet.cli.embedded_server import supervised

    async with supervised(server):
        await run_kubelet(settings, failed, given=given, ports=held)


def _set_oom_score(score: int) -> None:
    """Set the OOM score adjustment of the agent, ``oomScoreAdj``. Programs that it starts inherit it, its own runtime
    server too; containers have their own. An agent without permission works without it."""
    try:
        why = "" if set_oom_score_adj(os.getpid(), score) else "lowering it needs CAP_SYS_RESOURCE"
    except PykubeletError as error:
        why = str(error)
    if why:
        _log.warning("oomScoreAdj not applied", extra={"oom_score_adj": score, "error": why})


def _limit_open_files(wanted: int) -> None:
    """Set how many files the agent may have open, ``maxOpenFiles``. Programs that it starts inherit it, except its own
    runtime server, whose containers would. An agent without permission works with what it gets."""
    got = limit_open_files(wanted)
    if got < wanted:
        why = "more needs CAP_SYS_RESOURCE, and a sysctl fs.nr_open that allows it"
        _log.warning("maxOpenFiles limited", extra={"max_open_files": wanted, "limit": got, "error": why})


def _make_root_shared(root: Path) -> None:
    """Make the root directory a shared mount if needed, so that mounts below it propagate into containers.

    Containers such as CSI drivers request that propagation.
    """
    try:
        # World-searchable: pods with a user namespace access files of the runtime server below it.
        if not root.exists():
            root.mkdir(mode=0o711, parents=True)
            root.chmod(0o711)  # independent of the umask
        if make_shared(str(root)):
            _log.info("root directory made a shared mount", extra={"path": str(root)})
    except (PykubeletError, OSError) as error:
        _log.warning(
            "root directory is not a shared mount; mounts will not propagate into containers",
            extra={"error": str(error)},
        )
