"""Credentials from a plugin program, as cloud providers offer them (client.authentication.k8s.io, KEP-541)."""

import base64
import os
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from pykubelet.apiclient.kubeconfig import ClusterConfig, ExecPlugin
from pykubelet.base import proc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_TIMEOUT: Final[Seconds] = 60.0
_MAX_OUTPUT: Final = 1 << 20
_MAX_SHOWN: Final = 500
"""Characters of the standard error in messages."""


class ExecCredentials(Struct, frozen=True):
    """Credentials that a plugin has printed."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: Seconds | None = None
    """Unix time of expiry; None: never."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    status: _Status | None = None


async def run_plugin(plugin: ExecPlugin, config: ClusterConfig, *, deadline: Seconds = _TIMEOUT) -> ExecCredentials:
    """Run a plugin and return its credentials. Transient: it failed. Invalid: wrong configuration or output.

    What it leaves in its process group is killed. Messages have nothing of its standard output: it may hold a token.
    """
    if plugin.api_version not in _VERSIONS:
        raise Invalid(
            f"exec plugin {plugin.command}: unknown apiVersion {plugin.api_version!r}; use one of {_VERSIONS}"
        )
    info: dict[str, Any] = {
        "kind": "ExecCredential",
        "apiVersion": plugin.api_version,
        "spec": {"interactive": False},
    }
    if plugin.provide_cluster_info:
        info["spec"]["cluster"] = await blocking.call("credentials", _cluster_info, config)
    env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        done = await proc.run(
            [plugin.command, *plugin.args],
            timeout=deadline,
            env=env,
            check=False,
            max_output=_MAX_OUTPUT,
            stop_at_limit=True,
            kill_leftovers=True,
        )
    except NotFound as error:
        hint = f". {plugin.install_hint}" if plugin.install_hint else ""
        raise Invalid(f"exec plugin {plugin.command} is not installed{hint}") from error
    except PykubeletError as error:
        raise Transient(f"exec plugin {plugin.command} failed: {error}") from error
    if done.truncated:
        raise Transient(f"exec plugin {plugin.command} failed: it printed more than {_MAX_OUTPUT >> 20} MiB")
    if done.returncode != 0:
        said = printable(done.stderr.decode(errors="replace").strip()[-_MAX_SHOWN:])
        text = f"exec plugin {plugin.command} failed with exit code {done.returncode}"
        raise Transient(f"{text}: {said}" if said else text)
    return _read(plugin, done.stdout)


def _read(plugin: ExecPlugin, output: bytes) -> ExecCredentials:
    try:
        credential = decode_json(output, _Credential)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"exec plugin {plugin.command}: its output is not an ExecCredential: {error}") from error
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        found = f"{credential.api_version} {credential.kind}"
        raise Invalid(f"exec plugin {plugin.command}: printed a {found}, not a {plugin.api_version} ExecCredential")
    status = credential.status
    if status is None or not (status.token or status.client_certificate_data):
        raise Invalid(f"exec plugin {plugin.command}: printed neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise Invalid(
            f"exec plugin {plugin.command}: printed a certificate without a key, or a key without a certificate"
        )
    expires = status.expiration_timestamp
    return ExecCredentials(
        status.token,
        status.client_certificate_data.encode(),
        status.client_key_data.encode(),
        expires.timestamp() if expires is not None else None,
    )


def _cluster_info(config: ClusterConfig) -> dict[str, Any]:
    info: dict[str, Any] = {"server": config.server, "insecure-skip-tls-verify": config.insecure}
    if config.ca:
        info["certificate-authority-data"] = base64.b64encode(config.ca.read()).decode()
    if config.tls_server_name:
        info["tls-server-name"] = config.tls_server_name
    return info
