"""Execution of CNI plugins: JSON and environment variables in, JSON out."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.base.errors import Transient
from pykubelet.base.proc import ExitError, ProgramTimeout, run
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import AttachRequest, Json
from pykubelet.criserver.cni.plan.network_spec import environment, failure, parse_reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The CNI plugins in some directories, and the time limit of one call in seconds."""

    directories: Sequence[Path]
    timeout: Seconds
    marks: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""

    async def call(self, command: str, request: AttachRequest, netns: str, document: Json) -> Json:
        """Run one plugin and return its result (an empty object for DEL and CHECK).

        Raises Transient if the plugin is not installed, or fails (with its message) or times out.
        """
        name = str(document["type"])
        variables = environment(command, request, netns, ":".join(map(str, self.directories)))
        variables["PATH"] = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        variables |= self.marks
        data = json.dumps(document).encode()
        try:
            completed = await run([self._find(name)], input=data, env=variables, timeout=self.timeout, cwd="/")
        except ExitError as error:
            words = failure(error.completed.stdout, error.completed.stderr)
            raise Transient(f"CNI plugin {name} failed ({command}): {words}") from error
        except ProgramTimeout as error:
            raise Transient(f"CNI plugin {name} ({command}) took over {self.timeout:g} s and was killed") from error
        return parse_reply(completed.stdout, name)

    def has(self, name: str) -> bool:
        """Whether the plugin is installed."""
        return self._path(name) is not None

    def _path(self, name: str) -> str | None:
        paths = (directory / name for directory in self.directories)
        return next((str(path) for path in paths if os.access(path, os.X_OK)), None)

    def _find(self, name: str) -> str:
        path = self._path(name)
        if path is not None:
            return path
        where = ", ".join(map(str, self.directories))
        # Not NotFound: a client would take that for a sandbox that is gone, although it still has its address.
        raise Transient(f"CNI plugin {name} is in none of {where} (apt-get install containernetworking-plugins)")
