"""Registry credentials for ``pykubelet image pull``: given on the command line, or stored by ``docker login``."""

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from pykubelet.base.docker_helpers import ask_helper, helper_for
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.files.documents import read_json
from pykubelet.cli.terminal import echo
from pykubelet.criserver.images.reference import parse
from pykubelet.criserver.images.registry.config import same_registry
from pykubelet.pb import runtime_v1_pb2 as pb


def find_auth(reference: str, creds: str, file: Path | None) -> pb.AuthConfig | None:
    """Return ``USER[:PASSWORD]`` (prompting for a missing password), else the file's entry for the registry, if any.

    Invalid: the file is damaged, or was named and does not exist.
    """
    if creds:
        user, colon, password = creds.partition(":")
        if not colon:
            password = click.prompt(f"Password of {user}", hide_input=True, err=True)
        return pb.AuthConfig(username=user, password=password)
    path = file or _default_file()
    if file is None and not path.is_file():
        return None
    return from_docker_config(path, parse(reference).host)


def from_docker_config(path: Path, host: str) -> pb.AuthConfig | None:
    """Return the login of a docker configuration file for a registry; None if it has none.

    A credential helper that the file names is asked first, as by docker; a warning tells that it failed.
    """
    try:
        document: Any = read_json(path.read_bytes())
        entries: dict[str, Any] = document.get("auths") or {}
        items = [(str(name), dict(entry or {})) for name, entry in entries.items()]
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    except (Invalid, ValueError, AttributeError, TypeError) as error:
        raise Invalid(f"{path} is not a docker configuration: {error}") from error
    if login := _from_helper(path, document, host):
        return login
    for name, entry in items:
        if same_registry(name, host) and any(entry.values()):
            return pb.AuthConfig(
                username=str(entry.get("username", "")),
                password=str(entry.get("password", "")),
                auth=str(entry.get("auth", "")),
                identity_token=str(entry.get("identitytoken", "")),
                registry_token=str(entry.get("registrytoken", "")),
            )
    return None


def _from_helper(path: Path, document: dict[str, Any], host: str) -> pb.AuthConfig | None:
    try:
        helper = helper_for(document, host)
        login = asyncio.run(ask_helper(helper)) if helper is not None else None
    except PykubeletError as error:
        echo(f"warning: {path}: {error}; the image is pulled without its credentials for {host}", err=True)
        return None
    if login is None:
        return None
    return pb.AuthConfig(username=login.username, password=login.password, identity_token=login.identity_token)


def _default_file() -> Path:
    directory = os.environ.get("DOCKER_CONFIG")
    return Path(directory) / "config.json" if directory else Path.home() / ".docker" / "config.json"
