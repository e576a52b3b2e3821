"""Directories and files of an agent and its runtime server, from the same settings as those of ``pykubelet run``."""

import json
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import Settings

_OWN_NETWORK = "87-pykubelet.conflist"
_SYSTEM = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/srv"),
        *("/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/var/lib", "/var/log", "/var/run"),
    )
)
_Signs = tuple[frozenset[str], ...]


def _signs(*alternatives: str) -> _Signs:
    return tuple(frozenset(names.split()) for names in alternatives)


_AGENT_ROOT = _signs("history.jsonl", "criserver", "pods manifests", "pods plugins_registry")
_AGENT_RUN = _signs("agent.sock", "criserver", "server.json")
_SERVER_ROOT = _signs("state.db", "images storage")
_SERVER_RUN = _signs("server.json", "bundles exits")
"""Sets of entries by which a directory of the daemons is recognized: all of one set are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The settings of an agent that say where its leftovers are. Paths are absolute."""

    root: Path
    run: Path
    pod_logs: Path
    container_logs: Path
    cgroup_root: str
    """``cgroupRoot``; the pods' cgroups are in ``kubepods`` below it."""
    endpoint: str
    """The other runtime that the agent uses; empty: its own server."""
    server: Settings
    server_file: Path | None
    """The file that the server's settings were read from."""
    keep_images: bool

    @property
    def socket(self) -> Path:
        """The agent's local socket."""
        return self.run / "agent.sock"

    @property
    def network_file(self) -> Path:
        """The network configuration that the server writes if there is not any."""
        return self.server.cni.conf_dir / _OWN_NETWORK

    def networks(self) -> frozenset[str]:
        """The names of the server's own network and bridge; none if it has not written a configuration."""
        try:
            document = json.loads(self.network_file.read_bytes())
            bridges = (plugin.get("bridge", "") for plugin in document["plugins"])
            return frozenset(filter(None, (document["name"], *bridges)))
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise Invalid(f"{self.network_file} cannot be read: {error}") from error

    def check(self) -> None:
        """Refuse directories that are not the daemons' alone. Invalid names the setting."""
        agent = (("--root-dir", self.root, _AGENT_ROOT), ("--run-dir", self.run, _AGENT_RUN))
        server = (
            ("the runtime server's root", self.server.root, _SERVER_ROOT),
            ("the runtime server's run", self.server.run, _SERVER_RUN),
        )
        for what, path, signs in (*agent, *(() if self.endpoint else server)):
            if str(path) in _SYSTEM:
                raise Invalid(f"{what} {path} is a directory of the system; reset removes nothing there")
            present = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
            if present and not any(names <= present for names in signs):
                shown = ", ".join(sorted(present)[:3])
                raise Invalid(f"{what} {path} has only files of others ({shown}); reset removes nothing there")
