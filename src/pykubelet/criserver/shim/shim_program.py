"""The program of a shim: its commands ``start`` and ``delete``, and its options.

Source: containerd's docs/runtime-v2.md. The working directory is the task's bundle, whose name is the task's id.

Shims that are built with containerd 2.3 or later read parameters from their standard input, and refuse to start with
the options that earlier ones read there; these refuse the parameters. So both are tried.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.proc import ExitError, run
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds
from pykubelet.criserver.shim.task_client import NAMESPACE, VERSIONS, ProcessEnd, ended
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.removal import remove_tree
from pykubelet.pb import shim_task_pb2 as api

_PATH: Final = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
_START: Final[Seconds] = 30.0
_DELETE: Final[Seconds] = 60.0
_UNIX: Final = "unix://"
_LONGEST: Final = 1 << 16
_LONGEST_SOCKET: Final = 107
"""Bytes of a path in ``struct sockaddr_un``, without the NUL at its end."""
_MOST_SHOWN: Final = 200
_NEWER: Final = "deprecated API"
"""Part of the message of a shim that expects parameters and got options."""
_BINARY: Final = (b"\x08", b"\x12")
"""The first byte of a reply in protobuf: the tag of its version, or of its address."""
_RUNC_FIELDS: Final = {
    "BinaryName": "binary_name",
    "SystemdCgroup": "systemd_cgroup",
    "NoNewKeyring": "no_new_keyring",
    "NoPivotRoot": "no_pivot_root",
}
_OTHER_FIELDS: Final = {"TypeUrl": "type_url", "ConfigPath": "config_path"}


class Bootstrap(msgspec.Struct, frozen=True):
    """Address, version and protocol of a started shim."""

    address: str
    version: int = 2
    protocol: str = "ttrpc"

    @property
    def path(self) -> str:
        """The path of its socket."""
        return self.address.removeprefix(_UNIX)


class ShimProgram:
    """A shim's program with its options. NotFound: it is not installed; Invalid: an option that it does not have."""

    def __init__(self, name: str, options: Mapping[str, str | bool], *, state: Path, systemd: bool) -> None:
        """``state``: the directory of runc's state, for the shim that calls runc."""
        self.name = binary(name)
        found = shutil.which(self.name)
        if found is None:
            raise NotFound(f"shim {self.name} is not installed or not on PATH")
        self.path = found
        self.of_runc = Path(found).name.startswith("containerd-shim-runc-")
        self.systemd = systemd if self.of_runc else bool(options.get("SystemdCgroup", systemd))
        self.options = self._encoded(options, state, systemd)
        self._state = state / NAMESPACE
        self._takes_parameters = False
        """Whether the shim is known to read parameters instead of options."""

    def _encoded(self, options: Mapping[str, str | bool], state: Path, systemd: bool) -> Any | None:
        fields = _RUNC_FIELDS if self.of_runc else _OTHER_FIELDS
        unknown = sorted(options.keys() - fields.keys())
        if unknown:
            raise Invalid(f"shim {self.name} has no option {unknown[0]!r}; it has: {', '.join(fields)}")
        values = {fields[name]: value for name, value in options.items()}
        try:
            if self.of_runc:
                own = {"root": str(state), "binary_name": "runc", "systemd_cgroup": systemd, "no_new_keyring": True}
                message = api.RuncOptions(**{**own, **values})  # type: ignore[arg-type]
                return Any(type_url="containerd.runc.v1.Options", value=message.SerializeToString())
            if not values:
                return None
            other = api.RuntimeOptions(**values)  # type: ignore[arg-type]
            return Any(type_url="runtimeoptions.v1.Options", value=other.SerializeToString())
        except TypeError as error:
            raise Invalid(f"shim {self.name}: an option has a value of the wrong type: {error}") from error

    async def start(self, task: str, bundle: Path, events: Path) -> Bootstrap:
        """Start the shim of a sandbox. Permanent, with its message: it failed, or speaks no supported protocol."""
        try:
            if not self._takes_parameters:
                options = self.options.SerializeToString() if self.options is not None else b""
                try:
                    return self._bootstrap(await self._start(task, bundle, events, options))
                except ExitError as error:
                    if _NEWER not in _words(error):
                        raise
            said = await self._start(task, bundle, events, self._parameters(task, events))
        except ExitError as error:
            raise Permanent(f"shim {self.name} does not start: {_words(error) or error}") from error
        self._takes_parameters = True
        return self._bootstrap(said)

    async def _start(self, task: str, bundle: Path, events: Path, given: bytes) -> bytes:
        done = await run(
            self._argv(task, events, "start"),
            timeout=_START,
            # Without the server's marks: the shim inherits the environment, and outlives the server.
            env=self._env(events),
            cwd=str(bundle),
            input=given,
            max_output=_LONGEST,
        )
        return done.stdout

    def _parameters(self, task: str, events: Path) -> bytes:
        return api.BootstrapParams(
            instance_id=task,
            namespace=NAMESPACE,
            containerd_ttrpc_address=str(events),
            containerd_grpc_address=str(events),
            containerd_binary=_publisher(),
            extensions=[] if self.options is None else [api.BootstrapExtension(value=self.options)],
        ).SerializeToString()

    async def delete(self, task: str, bundle: Path, events: Path) -> ProcessEnd | None:
        """Kill and remove what a dead shim has left of a task; its exit, if the program tells one. Idempotent."""
        argv = [*self._argv(task, events, ""), "-bundle", str(bundle), "delete"]
        try:
            done = await run(argv, timeout=_DELETE, env=self._env(events), cwd=str(bundle), max_output=_LONGEST)
            reply = api.DeleteResponse.FromString(done.stdout)
        except (ExitError, DecodeError) as error:
            words = _words(error) if isinstance(error, ExitError) else "its reply is malformed"
            raise Permanent(f"shim {self.name} delete: {words or error}") from error
        return ended(reply.exit_status, reply.exited_at) if reply.HasField("exited_at") else None

    def remove_state(self, task: str) -> None:
        """Remove runc's state of a task that is deleted. Blocks. Idempotent.

        A ``runc create`` that is killed with its shim writes there while the program's ``delete`` removes it.
        """
        if not self.of_runc:
            return
        try:
            remove_tree(self._state / task)
        except OSError as error:
            raise wrap(error, f"cannot remove {self._state / task}") from error

    def _argv(self, task: str, events: Path, command: str) -> list[str]:
        # Events go over ttRPC only; a shim that would run the publishing program gets one without effect.
        found = [self.path, "-namespace", NAMESPACE, "-address", str(events), "-publish-binary", _publisher()]
        return [*found, "-id", task, *([command] if command else [])]

    def _env(self, events: Path) -> dict[str, str]:
        return {
            "PATH": _PATH,
            "TTRPC_ADDRESS": str(events),
            "GRPC_ADDRESS": str(events),
            "NAMESPACE": NAMESPACE,
            "MAX_SHIM_VERSION": str(max(VERSIONS)),
        }

    def _bootstrap(self, said: bytes) -> Bootstrap:
        text = said.decode(errors="replace").strip()
        try:
            if said.startswith(_BINARY):
                result = api.BootstrapResult.FromString(said)
                found = Bootstrap(result.address, result.version, result.protocol)
            else:
                found = decode_json(text, Bootstrap) if text.startswith("{") else Bootstrap(text)
        except (msgspec.DecodeError, DecodeError, RecursionError) as error:
            raise Permanent(f"shim {self.name} start: unknown reply {_short(text)}") from error
        if found.protocol != "ttrpc" or found.version not in VERSIONS or not found.address.startswith(_UNIX):
            raise Permanent(
                f"shim {self.name} speaks {printable(found.protocol[:_MOST_SHOWN])} version {found.version} at "
                f"{_short(found.address)}; supported is ttrpc, versions {', '.join(map(str, VERSIONS))}, at a unix "
                "socket"
            )
        if not found.path.startswith("/") or "\0" in found.path or len(os.fsencode(found.path)) > _LONGEST_SOCKET:
            raise Permanent(
                f"shim {self.name} start: {_short(found.address)} is not the address of a unix socket: an absolute "
                f"path of at most {_LONGEST_SOCKET} bytes"
            )
        return found


def binary(name: str) -> str:
    """The program of a shim: a path or a name as it is, a type of containerd (``io.containerd.runc.v2``) translated."""
    parts = name.split(".")
    if "/" in name or name.startswith("containerd-shim-") or len(parts) < 3:
        return name
    return f"containerd-shim-{parts[-2]}-{parts[-1]}"


def _publisher() -> str:
    return shutil.which("true", path=_PATH) or "/bin/true"


def _short(said: str) -> str:
    return repr(printable(said[:_MOST_SHOWN]))


def _words(error: ExitError) -> str:
    return error.completed.stderr.decode(errors="replace").strip()[-2000:]
