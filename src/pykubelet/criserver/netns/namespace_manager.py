"""Creates and releases the namespaces of sandboxes, which are pinned in one directory for each sandbox."""

import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Transient
from pykubelet.criserver.netns.namespace_types import NamespaceKind, NamespaceSpec
from pykubelet.criserver.netns.user_namespace import process_in_new_namespaces
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.types import ProcessRef, SandboxID
from pykubelet.linux.filesystems.mounts import make_shared, unmount_all_under
from pykubelet.linux.namespaces import Namespace, call_in, pin_new, pin_of, unpin

_SYSCTLS = Path("/proc/sys")
_KINDS = {
    NamespaceKind.NETWORK: Namespace.NET,
    NamespaceKind.UTS: Namespace.UTS,
    NamespaceKind.IPC: Namespace.IPC,
    NamespaceKind.USER: Namespace.USER,
}
_log = logging.getLogger(__name__)


class PinnedNamespaces:
    """The pinned namespaces of all sandboxes.

    Each sandbox has a directory of its own. Network namespaces are pinned in a directory that all runtimes of the
    machine share, usually /run/netns: the agents of CNI plugins mount only that directory into their pods. The
    sandbox's own directory then has a link to the file, from which it is found again.
    """

    def __init__(self, *, directory: Path, shared: Path, linked: Mapping[SandboxID, Path]) -> None:
        """``linked``: where the network namespaces of existing sandboxes are pinned; see `open`."""
        self._directory = directory
        self._shared = shared
        self._linked = dict(linked)

    @classmethod
    def open(cls, *, directory: Path, shared: Path) -> "PinnedNamespaces":
        """Read where existing network namespaces are pinned, and have mounts in ``shared`` appear in pods that have
        mounted it, as ip-netns(8) does. Blocking.

        Earlier servers pinned them in the sandboxes' own directories, or used another shared directory.
        """
        linked = pinned_networks(directory)
        try:
            shared.mkdir(mode=0o755, parents=True, exist_ok=True)
            make_shared(str(shared))
        except (OSError, PykubeletError) as error:
            _log.warning(
                "network namespaces may be invisible in pods that mount their directory",
                extra={"directory": str(shared), "error": str(error)},
            )
        return cls(directory=directory, shared=shared, linked=linked)

    def path(self, sandbox: SandboxID, kind: NamespaceKind) -> Path:
        """The file to which a namespace is pinned."""
        if kind is NamespaceKind.NETWORK:
            return self._linked.get(sandbox) or self._shared / f"cni-{sandbox}"
        return self._directory / sandbox / _KINDS[kind].file

    def known(self) -> list[SandboxID]:
        """The sandboxes that have a directory of namespaces."""
        with suppress(FileNotFoundError):
            return [SandboxID(entry.name) for entry in self._directory.iterdir()]
        return []

    async def make(self, sandbox: SandboxID, spec: NamespaceSpec) -> None:
        """Create the namespaces of a sandbox, all or none.

        Raises Invalid for a sysctl that the kernel refuses, Conflict if the sandbox has namespaces, Transient if the
        process that creates them is killed.
        """
        if spec.ids is not None:
            async with process_in_new_namespaces(tuple(kind.value for kind in spec.kinds), spec.ids) as process:
                pin = partial(_pin_of, process)
                await blocking.call_to_end(f"sandbox/{sandbox}", self._make, sandbox, spec, pin)
        elif spec.kinds:
            await blocking.call_to_end(f"sandbox/{sandbox}", self._make, sandbox, spec, pin_new)

    async def release(self, sandbox: SandboxID) -> None:
        """Release the namespaces of a sandbox. Idempotent: no error if there are none."""
        await blocking.call_to_end(f"sandbox/{sandbox}", self._release, sandbox)
        self._linked.pop(sandbox, None)

    def _make(self, sandbox: SandboxID, spec: NamespaceSpec, pin: Callable[[Mapping[Namespace, str]], None]) -> None:
        directory = self._directory / sandbox
        try:
            directory.mkdir(mode=0o700, parents=True)
        except FileExistsError as error:
            raise Conflict(f"{directory} exists already: sandbox {sandbox} has namespaces") from error
        paths = {_KINDS[kind]: str(self.path(sandbox, kind)) for kind in spec.kinds}
        try:
            if Namespace.NET in paths:
                self._shared.mkdir(mode=0o755, parents=True, exist_ok=True)
                (directory / Namespace.NET.file).symlink_to(paths[Namespace.NET])
            pin(paths)
            if Namespace.UTS in paths and spec.hostname:
                call_in(paths[Namespace.UTS], Namespace.UTS, lambda: socket.sethostname(spec.hostname))
            for kind in (Namespace.NET, Namespace.IPC):
                _set_sysctls(paths.get(kind, ""), kind, spec.sysctls)
        except BaseException:
            self._release(sandbox)
            raise

    def _release(self, sandbox: SandboxID) -> None:
        directory = self._directory / sandbox
        for kind in Namespace:
            file = directory / kind.file
            if file.is_symlink():
                unpin(str(_target(file)))
                file.unlink(missing_ok=True)
            elif file.exists():
                unpin(str(file))
        with suppress(FileNotFoundError):
            try:
                directory.rmdir()
            except OSError:
                # Another process has mounted or created something here; it must not be removed blindly.
                with suppress(NotFound):
                    unmount_all_under(str(directory), lazy=True)
                directory.rmdir()


def _pin_of(process: ProcessRef, paths: Mapping[Namespace, str]) -> None:
    """Pin the namespaces of a process. Transient: it has ended; those of another process with its PID may be pinned."""
    pin_of(process.pid, paths)
    if not is_alive(process):
        raise Transient(f"process {process.pid} ended before its namespaces were pinned")


def pinned_networks(directory: Path) -> dict[SandboxID, Path]:
    """The files to which the network namespaces of sandboxes are pinned, from the sandboxes' directories. Blocking."""
    return {SandboxID(file.parent.name): _target(file) for file in directory.glob(f"*/{Namespace.NET.file}")}


def _target(file: Path) -> Path:
    """The file to which a namespace is pinned: the target of a link, or the file itself."""
    return file.parent / file.readlink() if file.is_symlink() else file


def _set_sysctls(path: str, kind: Namespace, sysctls: Mapping[str, str]) -> None:
    """Set the sysctls of one type of namespace; the kernel applies them to the namespace of the writing thread."""
    mine = {name: value for name, value in sysctls.items() if (kind is Namespace.NET) == name.startswith("net.")}

    def write() -> None:
        for name, value in mine.items():
            _write_sysctl(name, value)

    if mine:
        call_in(path, kind, write)


def _write_sysctl(name: str, value: str) -> None:
    # A component may contain dots if slashes separate the components (sysctl.d(5)).
    relative = name.replace(".", "/") if "/" not in name else name
    path = _SYSCTLS / relative
    try:
        path.write_text(value)
    except OSError as error:
        raise Invalid(f"sysctl {name}={value} cannot be set: {error.strerror}") from error
