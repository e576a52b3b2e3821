"""Calls about the runtime: version, status, configuration."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from pykubelet import __version__
from pykubelet.base.concurrency.blocking import hung
from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.errors import PykubeletError
from pykubelet.base.text import printable
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.reload.config_reloader import ConfigState
from pykubelet.criserver.repairs import UnfinishedRepair
from pykubelet.criserver.runtimes import RuntimeHandlers
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.spec import Host
from pykubelet.pb import runtime_v1_pb2 as pb

NAME = "pykubelet"
API_VERSION = "v1"
_SECRET = frozenset({"username", "password"})
_HIDDEN = "(set)"
_USERINFO = re.compile(r"(?<=://)[^/@]+@")


class TrashCount(Protocol):
    """Trees, bytes and inodes that wait for deletion."""

    @property
    def trees(self) -> int: ...

    @property
    def bytes(self) -> Bytes: ...

    @property
    def inodes(self) -> int: ...


class UndeletedTree(Protocol):
    """A tree that cannot be deleted now."""

    @property
    def name(self) -> str: ...

    @property
    def error(self) -> str: ...

    @property
    def since(self) -> Seconds: ...


class Trash(Protocol):
    """The files of removed containers and images that are deleted in the background."""

    def undeleted(self) -> Sequence[UndeletedTree]:
        """The trees that cannot be deleted now; they are retried."""
        ...

    async def usage(self) -> TrashCount:
        """Trees, bytes and inodes that wait for deletion. Raises PykubeletError or OSError if they are unknown now."""
        ...


class Configuration(Protocol):
    """The configuration in force."""

    def state(self) -> ConfigState:
        """Return the values of the configuration file that are in force."""
        ...

    async def files(self) -> tuple[Mapping[str, object], Sequence[str]]:
        """Return the values in force of files that are read without a reload, and the errors of these files."""
        ...


class RuntimeCalls:
    """Version, Status, RuntimeConfig, UpdateRuntimeConfig."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        network_problem: Callable[[], str],
        handlers: RuntimeHandlers,
        host: Host,
        unfinished: Callable[[], Sequence[UnfinishedRepair]],
        trash: Trash,
    ) -> None:
        self._configuration = configuration
        self._network_problem = network_problem
        self._handlers = handlers
        self._host = host
        self._unfinished = unfinished
        self._trash = trash

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("Version", pb.VersionRequest, self.version)
        calls.unary("Status", pb.StatusRequest, self.status)
        calls.unary("RuntimeConfig", pb.RuntimeConfigRequest, self.runtime_config)
        calls.unary("UpdateRuntimeConfig", pb.UpdateRuntimeConfigRequest, self.update_runtime_config)

    async def version(self, request: pb.VersionRequest) -> pb.VersionResponse:
        """Return name and version of this runtime."""
        return pb.VersionResponse(
            version="0.1.0", runtime_name=NAME, runtime_version=__version__, runtime_api_version=API_VERSION
        )

    async def status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        """Return the conditions, runtime handlers and features; ``verbose``: with details as JSON."""
        problem = self._network_problem()
        network = pb.RuntimeCondition(type="NetworkReady", status=not problem)
        if problem:
            network.reason, network.message = "NetworkPluginNotReady", problem
        conditions = [pb.RuntimeCondition(type="RuntimeReady", status=True), network]
        handlers = [await self._handler(name) for name in ("", *self._handlers.runtimes)]
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=conditions),
            runtime_handlers=handlers,
            features=pb.RuntimeFeatures(
                supplemental_groups_policy=True, user_namespaces_host_network=self._host.user_namespaces
            ),
            info=await self._info() if request.verbose else {},
        )

    async def runtime_config(self, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        """Return the cgroup driver, so that the kubelet uses the same one."""
        systemd = self._configuration.state().settings.cgroup_manager is CgroupManager.SYSTEMD
        linux = pb.LinuxRuntimeConfiguration(cgroup_driver=pb.SYSTEMD if systemd else pb.CGROUPFS)
        return pb.RuntimeConfigResponse(linux=linux)

    async def update_runtime_config(self, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
        """Accept the node's pod CIDR; it is ignored, since CNI plugins have their own configuration."""
        return pb.UpdateRuntimeConfigResponse()

    async def _handler(self, name: str) -> pb.RuntimeHandler:
        said = await self._handlers.runtime(name or self._handlers.default).features()
        features = pb.RuntimeHandlerFeatures(
            recursive_read_only_mounts=said.recursive_read_only and self._host.recursive_read_only,
            user_namespaces=said.user_namespaces and self._host.user_namespaces,
        )
        return pb.RuntimeHandler(name=name, features=features)

    async def _info(self) -> dict[str, str]:
        """The settings, what could not be repaired or deleted yet, and figures of the process and the trash; JSON."""
        unfinished = [
            {"kind": each.kind, "id": printable(each.id), "error": each.error, "since": each.since}
            for each in self._unfinished()
        ]
        unfinished += [
            {"kind": "trash", "id": printable(each.name), "error": each.error, "since": each.since}
            for each in self._trash.undeleted()
        ]
        process = {
            "tasks": len(asyncio.all_tasks()),
            "threads": threading.active_count(),
            "itemFailures": item_failures(),
            "hungCalls": [f"{each.call} for {each.owner}" for each in hung()],
        }
        state = self._configuration.state()
        files, problems = await self._configuration.files()
        found: dict[str, object] = {
            "config": {**self._described(state.settings), "settings": described(state.settings)},
            "configuration": {
                "file": state.file,
                "readAt": state.read_at,
                "error": state.error,
                "needsRestart": state.restart,
                "problems": problems,
            },
            **{name: _shown(msgspec.to_builtins(value, enc_hook=str)) for name, value in files.items()},
            "lastCNILoadStatus": self._network_problem() or "OK",
            "quarantine": unfinished,
            "process": process,
        }
        with suppress(PykubeletError, OSError):
            waiting = await self._trash.usage()
            found["trash"] = {"trees": waiting.trees, "bytes": waiting.bytes, "inodes": waiting.inodes}
        return {name: json.dumps(value) for name, value in found.items()}

    def _described(self, settings: Settings) -> dict[str, object]:
        return {
            "root": str(settings.root),
            "run": str(settings.run),
            "defaultHandler": settings.default_handler,
            "handlers": {name: handler.path for name, handler in settings.handlers.items()},
            "cgroupManager": settings.cgroup_manager.value,
            "cniConfDir": str(settings.cni.conf_dir),
            "cgroupVersion": self._host.cgroup_version,
            "conmon": settings.conmon,
            "infra": settings.infra,
            "pauseImage": settings.pause_image,
            "swap": self._host.swap,
            "apparmor": self._host.apparmor,
            "selinux": self._host.selinux,
            "selinuxProblem": self._host.selinux_problem,
        }


def described(settings: Settings) -> dict[str, object]:
    """Return all settings with the names of the configuration file. Credentials are replaced by ``(set)``."""
    found = _shown(msgspec.to_builtins(settings, enc_hook=str))
    assert isinstance(found, dict), "a struct"
    return found


def _shown(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _HIDDEN if key in _SECRET and each else _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return _USERINFO.sub(f"{_HIDDEN}@", value) if isinstance(value, str) else value
