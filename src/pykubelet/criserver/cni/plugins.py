"""Execution of CNI plugins: JSON and environment variables in, JSON out."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base import tracing
from pykubelet.base.errors import Transient
from pykubelet.base.proc import ExitError, ProgramTimeout, run
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import AttachRequest, Json
from pykubelet.criserver.cni.plan.network_spec import (
    bare_environment,
    environment,
    error_code,
    failure,
    parse_reply,
)


class PluginFailed(Transient):
    """A plugin has failed. ``code`` is that of its error object, 0 without one; ``said`` is its message."""

    def __init__(self, text: str, code: int, said: str) -> None:
        super().__init__(text)
        self.code = code
        self.said = said


class Plugins(Struct, frozen=True, kw_only=True):
    """The CNI plugins in some directories, and the time limit of one call in seconds."""

    directories: Sequence[Path]
    timeout: Seconds
    marks: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""

    async def call(self, command: str, request: AttachRequest, netns: str, document: Json) -> Json:
        """Run one plugin for a sandbox and return its result (an empty object for DEL and CHECK).

        Raises Transient if the plugin is not installed, or fails (with its message) or times out.
        """
        variables = environment(command, request, netns, self._path_variable())
        data = await self._run(command, document, variables, self.timeout)
        return parse_reply(command, data, str(document["type"]))

    async def ask(self, command: str, document: Json, limit: Seconds) -> None:
        """Run STATUS or GC of one plugin, for at most ``limit``. Raises PluginFailed, or Transient as ``call``."""
        variables = bare_environment(command, self._path_variable())
        await self._run(command, document, variables, min(limit, self.timeout))

    async def _run(self, command: str, document: Json, variables: dict[str, str], limit: Seconds) -> bytes:
        name = str(document["type"])
        variables["PATH"] = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        variables |= self.marks
        data = json.dumps(document).encode()
        try:
            with tracing.span(f"CNI {command} {name}", {"cni.network": str(document.get("name", ""))}, nested=True):
                variables |= tracing.variables()
                completed = await run([self._find(name)], input=data, env=variables, timeout=limit, cwd="/")
        except ExitError as error:
            words = failure(error.completed.stdout, error.completed.stderr)
            code = error_code(error.completed.stdout)
            raise PluginFailed(f"CNI plugin {name} failed ({command}): {words}", code, words) from error
        except ProgramTimeout as error:
            raise Transient(f"CNI plugin {name} ({command}) took over {limit:g} s and was killed") from error
        return completed.stdout

    def _path_variable(self) -> str:
        return ":".join(map(str, self.directories))

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
