"""Creates and releases the namespaces of sandboxes, which are pinned in one directory for each sandbox."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.criserver.netns.namespace_types import Kind, NamespaceSpec
from pykubelet.criserver.netns.user_namespace import process_in_new_namespaces
from pykubelet.criserver.types import SandboxID
from pykubelet.linux.mounts import unmount_all_under
from pykubelet.linux.namespaces import Namespace, call_in, pin_new, pin_of, unpin

_SYSCTLS = Path("/proc/sys")


_KINDS = {Kind.NETWORK: Namespace.NET, Kind.UTS: Namespace.UTS, Kind.IPC: Namespace.IPC, Kind.USER: Namespace.USER}


class PinnedNamespaces:
    """The pinned namespaces of all sandboxes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, sandbox: SandboxID, kind: Kind) -> Path:
        """The file to which a namespace is pinned."""
        return self._directory / sandbox / _KINDS[kind].file

    def known(self) -> list[SandboxID]:
        """The sandboxes that have a directory of namespaces."""
        with suppress(FileNotFoundError):
            return [SandboxID(entry.name) for entry in self._directory.iterdir()]
        return []

    async def make(self, sandbox: SandboxID, spec: NamespaceSpec) -> None:
        """Create the namespaces of a sandbox, all or none. Raises Invalid for a sysctl that the kernel refuses."""
        if spec.ids is not None:
            async with process_in_new_namespaces(tuple(kind.value for kind in spec.kinds), spec.ids) as pid:
                await blocking.call_to_end(f"sandbox/{sandbox}", self._make, sandbox, spec, partial(pin_of, pid))
        elif spec.kinds:
            await blocking.call_to_end(f"sandbox/{sandbox}", self._make, sandbox, spec, pin_new)

    async def release(self, sandbox: SandboxID) -> None:
        """Release the namespaces of a sandbox. Idempotent: no error if there are none."""
        await blocking.call_to_end(f"sandbox/{sandbox}", self._release, sandbox)

    def _make(self, sandbox: SandboxID, spec: NamespaceSpec, pin: Callable[[Mapping[Namespace, str]], None]) -> None:
        directory = self._directory / sandbox
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = {_KINDS[kind]: str(self.path(sandbox, kind)) for kind in spec.kinds}
        try:
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
            if (directory / kind.file).exists():
                unpin(str(directory / kind.file))
        with suppress(FileNotFoundError):
            try:
                directory.rmdir()
            except OSError:
                # Another process has mounted or created something here; it must not be removed blindly.
                with suppress(NotFound):
                    unmount_all_under(str(directory), lazy=True)
                directory.rmdir()


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
