"""``pykubelet doctor``: report what the machine lacks for running pods, with the command that fixes it."""

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.decoding import convert, decode_json
from pykubelet.base.files.state_files import DamagedFile
from pykubelet.base.text import printable
from pykubelet.cli.changes.run_records import leftovers
from pykubelet.cli.client.endpoint import other_runtimes
from pykubelet.cli.client.local_api import LocalApi, NoPermission
from pykubelet.cli.machine_fixes import apply_fixes, fixes
from pykubelet.cli.terminal import echo
from pykubelet.criserver.config.settings import DEFAULT_RUN
from pykubelet.linux import cgroups, procfs, selinux, system
from pykubelet.linux.filesystems import fsusage

_T = TypeVar("_T")
_OLDEST_KERNEL = (5, 4)
_CNI_DIRECTORIES = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
_CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_MIN_INOTIFY_INSTANCES = 64
_MIN_FREE_BYTES = 1 << 30


class FindingLevel(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``remedy`` is a command or a sentence."""

    verdict: FindingLevel
    subject: str
    text: str
    remedy: str = ""
    packages: tuple[str, ...] = ()
    """Debian packages that ``--fix`` installs."""
    command: tuple[str, ...] = ()
    """A command that ``--fix`` runs."""


_MARKS = {
    FindingLevel.OK: click.style("✓", fg="green"),
    FindingLevel.WARNING: click.style("!", fg="yellow"),
    FindingLevel.FAILED: click.style("✗", fg="red"),
}


@click.command(name="doctor")
@click.option(
    "--container-runtime-endpoint",
    default="",
    help="Another runtime's socket (default: that of the running agent, else pykubelet's own server's).",
)
@click.option(
    "--root-dir", type=click.Path(path_type=Path), default=Path("/var/lib"), help="The directory of the agent's state."
)
@click.option("--fix", is_flag=True, help="Install what is missing, after asking.")
@click.option("-y", "--yes", is_flag=True, help="With --fix: do not ask.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.pass_context
def command(
    ctx: click.Context, container_runtime_endpoint: str, root_dir: Path, fix: bool, yes: bool, output: str | None
) -> None:
    """Check kernel, cgroups, programs and runtime; exits with 1 if pods cannot run on this machine."""
    if output and fix:
        raise click.UsageError("-o prints findings for programs; leave out --fix")
    findings = _findings(LocalApi(ctx.obj), container_runtime_endpoint, root_dir)
    if output:
        click.echo(json.dumps(_document(findings), indent=2))
        ctx.exit(_status(findings))
    _print(findings)
    needed = [finding for finding in findings if fix]
    steps = fixes((name for f in needed for name in f.packages), (f.command for f in needed))
    if fix and not steps:
        echo("nothing that --fix could change")
    if steps:
        apply_fixes(steps, ask=not yes)
        findings = _findings(LocalApi(ctx.obj), container_runtime_endpoint, root_dir)
        _print(findings)
    ctx.exit(_status(findings))


def _status(findings: Sequence[Finding]) -> int:
    return 1 if any(f.verdict is FindingLevel.FAILED for f in findings) else 0


def _document(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the report as JSON has it; ``command`` and ``packages`` are what ``--fix`` would run and install."""
    count = Counter(finding.verdict for finding in findings)
    items = [{key: value for key, value in asdict(finding).items() if value} for finding in findings]
    return {"failed": count[FindingLevel.FAILED], "warnings": count[FindingLevel.WARNING], "items": items}


def _findings(agent: LocalApi, endpoint: str, root_dir: Path) -> list[Finding]:
    runtime = _runtime(endpoint or _runtime_of(agent))
    return [
        *machine_findings(),
        *program_findings(),
        *_disk(root_dir),
        *runtime,
        *damaged_findings(agent),
        *_killed_runs(agent),
    ]


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(f.subject) for f in findings)
    for finding in findings:
        click.echo(_MARKS[finding.verdict], nl=False)
        echo(f" {finding.subject:<{width}}  {printable(finding.text)}")
        if finding.remedy:
            echo(f"  {'':<{width}}  → {printable(finding.remedy)}")
    failed = sum(f.verdict is FindingLevel.FAILED for f in findings)
    warned = sum(f.verdict is FindingLevel.WARNING for f in findings)
    echo(f"\n{failed} failed, {warned} warnings")


def damaged_findings(agent: LocalApi) -> Iterator[Finding]:
    """Yield the damaged files that a running agent has found."""
    try:
        items = convert(agent.get("/pykubelet/v1/damaged")["items"], list[DamagedFile])
    except (PykubeletError, msgspec.ValidationError, LookupError, TypeError):
        return  # no agent runs, or an older one
    for item in items:
        if item.kept_as:
            text, remedy = f"{item.path} was damaged: {item.error}", f"inspect {item.kept_as}, then remove it"
        else:
            text, remedy = f"{item.path}: {item.error}", "remove the cause; the agent retries by itself"
        yield Finding(FindingLevel.WARNING, "agent's files", text, remedy)


def _killed_runs(agent: LocalApi) -> Iterator[Finding]:
    """Yield what a killed ``run-once`` has left in the manifest directory of a running agent."""
    try:
        path = str(agent.get("/pykubelet/v1/manifests")["path"])
    except (PykubeletError, LookupError, TypeError):
        return
    for left in leftovers(Path(path)) if path else ():
        text = f"{left} was left by a run-once that was killed"
        yield Finding(FindingLevel.WARNING, "manifests", text, "the next run-once or start of the agent removes it")


def machine_findings() -> Iterator[Finding]:
    """Yield findings about the user, the kernel and its limits."""
    if os.geteuid() == 0:
        yield Finding(FindingLevel.OK, "user", "root")
    else:
        yield Finding(FindingLevel.FAILED, "user", f"uid {os.geteuid()}; pods need root", "sudo pykubelet run …")
    kernel = system.kernel_version()
    numbers = tuple(int(part) for part in kernel.split("-")[0].split(".")[:2] if part.isdecimal())
    if numbers >= _OLDEST_KERNEL:
        yield Finding(FindingLevel.OK, "kernel", kernel)
    else:
        yield Finding(FindingLevel.WARNING, "kernel", f"{kernel} is older than 5.4", "update the kernel")
    layout = cgroups.detect()
    trouble = cgroups.problem(layout)
    if trouble:
        yield Finding(FindingLevel.FAILED, "cgroups", f"{layout.mode}: {trouble}")
    else:
        yield Finding(FindingLevel.OK, "cgroups", f"{layout.mode} (version {layout.version})")
    yield _filesystem("overlay")
    yield _seccomp()
    yield from _selinux()
    yield from _limits()


def _filesystem(name: str) -> Finding:
    known = procfs.machine("filesystems").split()
    if name in known:
        return Finding(FindingLevel.OK, "overlayfs", "supported")
    return Finding(FindingLevel.WARNING, "overlayfs", "not loaded", f"modprobe {name}", command=("modprobe", name))


def _seccomp() -> Finding:
    if "Seccomp" in (procfs.status("self") or {}):
        return Finding(FindingLevel.OK, "seccomp", "supported")
    text = "not supported by the kernel; containers with a seccomp profile are rejected"
    return Finding(FindingLevel.WARNING, "seccomp", text, "use a kernel with CONFIG_SECCOMP_FILTER")


def _selinux() -> Iterator[Finding]:
    labels = selinux.container_labels()
    if labels.problem:
        text = f"{labels.problem}; containers of pykubelet's own server are not confined by it"
        yield Finding(
            FindingLevel.WARNING, "SELinux", text, "install a policy with container types (container-selinux)"
        )
    elif labels.process:
        yield Finding(FindingLevel.OK, "SELinux", f"containers run as {labels.process}")


def _limits() -> Iterator[Finding]:
    words = procfs.machine("sys/fs/inotify/max_user_instances").split()
    if words:
        instances = int(words[0])
        if instances < _MIN_INOTIFY_INSTANCES:
            remedy = "sysctl -w fs.inotify.max_user_instances=8192"
            text = f"only {instances} instances"
            yield Finding(FindingLevel.WARNING, "inotify", text, remedy, command=tuple(remedy.split()))
        else:
            yield Finding(FindingLevel.OK, "inotify", f"{instances} instances")
    forward = procfs.machine("sys/net/ipv4/ip_forward").strip()
    if forward:
        if forward == "1":
            yield Finding(FindingLevel.OK, "ip_forward", "on")
        else:
            text = "off; the CNI bridge plugin turns it on when the first pod starts"
            yield Finding(FindingLevel.WARNING, "ip_forward", text, "sysctl -w net.ipv4.ip_forward=1")


def program_findings() -> Iterator[Finding]:
    """Yield findings about programs that pods need; remedies name their Debian packages."""
    runtimes = [name for name in ("runc", "crun") if _installed(name)]
    if runtimes:
        yield Finding(FindingLevel.OK, "OCI runtime", ", ".join(runtimes))
    else:
        yield Finding(FindingLevel.FAILED, "OCI runtime", "neither runc nor crun is installed", *_install("runc"))
    plugins = {
        name for directory in _CNI_DIRECTORIES if directory.is_dir() for name in (p.name for p in directory.iterdir())
    }
    missing = [name for name in _CNI_PLUGINS if name not in plugins]
    if missing:
        text = f"missing: {', '.join(missing)}"
        yield Finding(FindingLevel.FAILED, "CNI plugins", text, *_install("containernetworking-plugins"))
    else:
        yield Finding(FindingLevel.OK, "CNI plugins", ", ".join(_CNI_PLUGINS))
    if _installed("iptables"):
        yield Finding(FindingLevel.OK, "iptables", "installed")
    else:
        text = "missing; hostPort and masquerading need it"
        yield Finding(FindingLevel.WARNING, "iptables", text, *_install("iptables"))


def _install(package: str) -> tuple[str, tuple[str, ...]]:
    """Return the remedy that installs a Debian package, and the package."""
    return f"apt-get install {package}", (package,)


def _installed(program: str) -> bool:
    """Return whether a program is installed, also in system directories that a user's PATH may lack."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES))
    return shutil.which(program, path=path) is not None


def _disk(directory: Path) -> Iterator[Finding]:
    while not directory.exists():
        directory = directory.parent
    usage = fsusage.filesystem(str(directory))
    text = f"{usage.available / (1 << 30):.1f} GiB free at {directory}"
    if usage.available < _MIN_FREE_BYTES:
        yield Finding(FindingLevel.WARNING, "disk", text, "free some space or choose another --root-dir")
    else:
        yield Finding(FindingLevel.OK, "disk", text)


def _runtime_of(agent: LocalApi) -> str | None:
    """Return the endpoint of the running agent's runtime; empty if no agent responds, None if this user may not ask."""
    try:
        return str(agent.get("/pykubelet/v1/version").get("runtimeEndpoint", ""))
    except NoPermission:
        return None
    except (PykubeletError, AttributeError):
        return ""


def _runtime(endpoint: str | None) -> Iterator[Finding]:
    """Yield findings about the runtime: the named one, else the own server that `pykubelet run` would use.

    None: there is an agent that this user may not ask.
    """
    if endpoint is None:
        text = "not asked: only root may connect to the agent and its runtime server"
        yield Finding(FindingLevel.WARNING, "CRI runtime", text, "sudo pykubelet doctor")
        return
    others = ", ".join(other_runtimes())
    if not endpoint:
        yield from _own_server()
        if others:
            text = f"found: {others}; used only if named by --container-runtime-endpoint"
            yield Finding(FindingLevel.OK, "other runtimes", text)
        socket = DEFAULT_RUN / "criserver.sock"
        if not socket.exists():
            text = "pykubelet's own server, started by `pykubelet run`; not running now"
            yield Finding(FindingLevel.OK, "CRI runtime", text)
            return
        endpoint = f"unix://{socket}"
    try:
        yield from asyncio.run(_ask_runtime(endpoint))
    except (PykubeletError, TimeoutError) as error:
        text = f"{endpoint}: {str(error) or 'no answer within 5 s'}"
        yield Finding(FindingLevel.FAILED, "CRI runtime", text, "start the runtime")


def _own_server() -> Iterator[Finding]:
    """Yield what pykubelet's own runtime server needs besides an OCI runtime and the CNI plugins."""
    if _installed("conmon"):
        yield Finding(FindingLevel.OK, "conmon", "installed")
    else:
        text = "missing; pykubelet's own runtime server needs it for every container"
        yield Finding(
            FindingLevel.FAILED, "conmon", text, "apt-get install conmon, or --container-runtime-endpoint", ("conmon",)
        )
    if _installed("catatonit"):
        yield Finding(FindingLevel.OK, "catatonit", "installed")
    else:
        text = "missing; pods with shareProcessNamespace need it"
        yield Finding(FindingLevel.WARNING, "catatonit", text, *_install("catatonit"))


async def _ask_runtime(endpoint: str) -> list[Finding]:
    from pykubelet.kubelet.actuate.cri import CriClient

    async with asyncio.timeout(5), CriClient.connect(endpoint) as client:
        version = await client.version()
        status = await client.status(verbose=True)
    findings = [
        Finding(FindingLevel.OK, "CRI runtime", f"{version.runtime_name} {version.runtime_version} at {endpoint}")
    ]
    for condition in status.status.conditions:
        if condition.status:
            findings.append(Finding(FindingLevel.OK, condition.type, "true"))
        else:
            remedy = (
                "put a CNI configuration into /etc/cni/net.d" if condition.type == "NetworkReady" else "see its log"
            )
            findings.append(Finding(FindingLevel.FAILED, condition.type, condition.message or condition.reason, remedy))
    findings += _configuration(status.info.get("configuration", "{}"))
    findings += _trash(status.info.get("trash", "{}"))
    return [*findings, *_quarantine(status.info.get("quarantine", "[]"))]


class _Configuration(msgspec.Struct):
    file: str = ""
    error: str = ""
    problems: tuple[str, ...] = ()


def _configuration(text: str) -> Iterator[Finding]:
    """Yield what is wrong with the present files of pykubelet's own server, which it reads while it runs."""
    found = _decoded(text, _Configuration) or _Configuration()
    refused = (f"{found.file} is refused, the former version is in force: {found.error}",) if found.error else ()
    for problem in (*refused, *found.problems):
        yield Finding(FindingLevel.FAILED, "server's files", problem, "correct the file; no restart is needed")


def _decoded(text: str, kind: type[_T]) -> _T | None:
    """A reply of pykubelet's own server; None: it is another runtime, which means something else by the same name."""
    try:
        return decode_json(text, kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class _TrashAmount(msgspec.Struct):
    trees: int = 0
    bytes: int = 0
    inodes: int = 0


def _trash(text: str) -> Iterator[Finding]:
    """Yield what pykubelet's own server still has to delete of removed containers and images."""
    found = _decoded(text, _TrashAmount) or _TrashAmount()
    if found.trees:
        size = f"{found.bytes / (1 << 20):.1f} MiB in {found.inodes} files"
        yield Finding(FindingLevel.OK, "trash", f"{size} of removed containers and images are being deleted")


class _QuarantinedObject(msgspec.Struct):
    kind: str
    id: str
    error: str


def _quarantine(text: str) -> Iterator[Finding]:
    """Yield what pykubelet's own server could not repair at its start, or cannot delete, and retries."""
    for item in _decoded(text, list[_QuarantinedObject]) or ():
        cause = item.error or "repair is slow"
        remedy = "remove the cause; the server retries by itself"
        yield Finding(FindingLevel.WARNING, "quarantine", f"{item.kind} {item.id}: {cause}", remedy)
