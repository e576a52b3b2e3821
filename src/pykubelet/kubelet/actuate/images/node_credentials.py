"""Reads the node's own registry credentials, which apply to the images of all pods.

Source: ``pkg/credentialprovider`` of the Go kubelet, and the Kubernetes documentation, "Configuring nodes to
authenticate to a private registry".
"""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.docker_helpers import Helper, HelperLogin, ask_helper, helper_for
from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.documents import read_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.images.plan.keyring import Keyring, RegistryCredentials, keyring_of_file

_log = logging.getLogger(__name__)
_DEADLINE: Seconds = 5.0
_MAX_BYTES: Final = 1 << 20
_ANSWER_COUNTS: Final[Seconds] = 60.0
_MAX_ANSWERS: Final = 256
_AT_ONCE: Final = 8
"""Helpers that run at a time."""
_JSON: Final = "config.json"
_LEGACY: Final = ".dockercfg"


def credential_files(root_dir: Path, home: str | None) -> tuple[Path, ...]:
    """Return where the node's credentials may be, first choice first, by the agent's root and home directory."""
    homes = [Path(home)] if home else []
    directories = [root_dir, *(each / ".docker" for each in homes), Path("/.docker")]
    older = [root_dir, *homes, Path("/")]
    return (*(each / _JSON for each in directories), *(each / _LEGACY for each in older))


class _Config(Struct, frozen=True):
    """The file that counts."""

    path: Path | None = None
    keyring: Keyring = field(default_factory=Keyring)
    document: Mapping[str, object] = field(default_factory=dict)
    """All of a ``config.json``."""


class NodeCredentials:
    """The credentials in the first of the files that is there and valid; read for each pull, so a login counts at once.

    A credential helper that the file names is asked before its own entries are used, as by docker. What it says counts
    for a minute, or until the file changes: each pod names a registry, and each question starts a program.

    The working directory, where upstream looks too, is left out: any project may have a ``config.json``.
    """

    def __init__(self, files: Sequence[Path], clock: Clock) -> None:
        self._files = tuple(files)
        self._clock = clock
        self._logged: dict[Path, str] = {}
        self._asked: SingleFlight[Helper, HelperLogin | None] = SingleFlight()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._answers: OrderedDict[Helper, tuple[HelperLogin | None, Seconds]] = OrderedDict()
        """Replies of helpers for the present file, and the time until which each counts."""
        self._answered: Mapping[str, object] = {}
        """The file of the answers."""

    @classmethod
    def of_node(cls, root_dir: Path, clock: Clock) -> "NodeCredentials":
        """Return those of this machine."""
        return cls(credential_files(root_dir, os.environ.get("HOME")), clock)

    async def lookup(self, repository: str) -> tuple[RegistryCredentials, ...]:
        """Return the node's credentials for a repository; none if the files are missing. Never raises.

        A file that cannot be used is logged once, a helper that fails each time.
        """
        if not self._files:
            return ()
        try:
            config = await blocking.call("images", self._read, deadline=_DEADLINE)
        except PykubeletError as error:
            _log.warning("registry credentials of the node not read", extra={"error": str(error)})
            return ()
        return (*await self._from_helper(config, repository.partition("/")[0]), *config.keyring.lookup(repository))

    async def _from_helper(self, config: _Config, host: str) -> tuple[RegistryCredentials, ...]:
        try:
            helper = helper_for(config.document, host)
            login = await self._login(config.document, helper) if helper is not None else None
        except PykubeletError as error:
            extra = {"file": str(config.path), "registry": host, "error": str(error)}
            _log.warning("credential helper of the node gave no credentials", extra=extra)
            return ()
        if login is None:
            return ()
        return (RegistryCredentials(login.username, login.password, identity_token=login.identity_token),)

    async def _login(self, document: Mapping[str, object], helper: Helper) -> HelperLogin | None:
        if document != self._answered:
            self._answers.clear()
            self._answered = document
        login, until = self._answers.get(helper, (None, 0.0))
        if self._clock.monotonic() < until:
            return login
        login = await self._asked.run(helper, lambda: self._ask(helper))
        if document == self._answered:
            self._answers[helper] = login, self._clock.monotonic() + _ANSWER_COUNTS
            self._answers.move_to_end(helper)
            if len(self._answers) > _MAX_ANSWERS:
                self._answers.popitem(last=False)
        return login

    async def _ask(self, helper: Helper) -> HelperLogin | None:
        async with self._slots:
            return await ask_helper(helper)

    def _read(self) -> _Config:
        for path in self._files:
            try:
                data = read_regular(path, _MAX_BYTES)
                legacy = path.name == _LEGACY
                found = keyring_of_file(data, legacy=legacy, where=str(path))
                document = {} if legacy else read_json(data)
            except (FileNotFoundError, NotADirectoryError):
                self._logged.pop(path, None)
            except (OSError, PykubeletError) as error:
                if self._logged.get(path) != str(error):
                    self._logged[path] = str(error)
                    _log.warning("registry credentials of the node not used", extra={"error": str(error)})
            else:
                self._logged.pop(path, None)
                return _Config(path, found, document if isinstance(document, dict) else {})
        return _Config()
