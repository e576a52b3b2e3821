"""Docker's credential helpers: programs that store the passwords of ``docker login``.

A docker configuration names them in ``credHelpers`` (by registry) and ``credsStore`` (for all others). The agent and
the command line ask them as docker does: ``docker-credential-NAME get``, with the registry on the standard input.
Source: the protocol of the docker-credential-helpers project.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_DOCKER_HUB: Final = "https://index.docker.io/v1/"
_DOCKER_HOSTS: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEADLINE: Final[Seconds] = 60.0
_MAX_OUTPUT: Final = 1 << 20
_MAX_SHOWN: Final = 500
_MISSING: Final = b"credentials not found in native keychain"
_TOKEN_USER: Final = "<token>"


class _Answer(msgspec.Struct, frozen=True):
    username: str = msgspec.field(default="", name="Username")
    secret: str = msgspec.field(default="", name="Secret")


class Helper(Struct, frozen=True):
    """A helper to ask about a registry."""

    name: str
    """The name of its program without the prefix ``docker-credential-``."""
    server: str
    """The registry as docker names it."""

    @property
    def program(self) -> str:
        return f"docker-credential-{self.name}"


@dataclass(frozen=True, slots=True)
class HelperLogin:
    """Credentials that a helper has stored: user and password, or an identity token."""

    username: str
    password: str = field(repr=False)
    identity_token: str = field(repr=False)


def helper_for(document: Mapping[str, object], host: str) -> Helper | None:
    """Return the helper that a docker configuration names for a registry (``docker.io``, ``reg.example:5000``).

    Raises Invalid, which names the field, for a malformed configuration.
    """
    hub = host in _DOCKER_HOSTS
    helpers, store = document.get("credHelpers") or {}, document.get("credsStore") or ""
    if not isinstance(helpers, dict) or not all(isinstance(each, str) for each in helpers.values()):
        raise Invalid("credHelpers: must map registries to names of helpers")
    if not isinstance(store, str):
        raise Invalid("credsStore: must be the name of a helper")
    for key in (_DOCKER_HUB, *_DOCKER_HOSTS) if hub else (host,):
        if helpers.get(key):
            return Helper(_checked("credHelpers", helpers[key]), key)
    return Helper(_checked("credsStore", store), _DOCKER_HUB if hub else host) if store else None


async def ask_helper(helper: Helper, *, deadline: Seconds = _DEADLINE) -> HelperLogin | None:
    """Ask a helper; None: it has nothing for the registry.

    Raises base errors, whose messages have nothing of its standard output: it may hold a password.
    """
    try:
        done = await proc.run(
            [helper.program, "get"],
            timeout=deadline,
            input=f"{helper.server}\n".encode(),
            env=os.environ,
            check=False,
            max_output=_MAX_OUTPUT,
            stop_at_limit=True,
            kill_leftovers=True,
        )
    except NotFound as error:
        raise NotFound(f"credential helper {helper.program} is not installed in the directories of PATH") from error
    if done.truncated:
        raise Permanent(f"credential helper {helper.program} printed more than {_MAX_OUTPUT >> 20} MiB and was killed")
    if done.returncode != 0:
        if _MISSING in done.stdout:
            return None
        said = printable(done.stderr.decode(errors="replace").strip()[-_MAX_SHOWN:])
        text = f"credential helper {helper.program} ended with exit code {done.returncode}"
        raise Permanent(f"{text}: {said}" if said else text)
    try:
        answer = decode_json(done.stdout, _Answer)
    except (ValueError, RecursionError):
        raise Invalid(f"credential helper {helper.program}: its output is not the JSON of a login") from None
    if answer.username == _TOKEN_USER:
        return HelperLogin("", "", answer.secret)
    return HelperLogin(answer.username, answer.secret, "")


def _checked(field: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        example = "write for example pass for docker-credential-pass"
        raise Invalid(f"{field}: {name!r} is not the name of a helper; {example}")
    return name
