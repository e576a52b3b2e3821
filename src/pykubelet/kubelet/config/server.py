"""Whether the kubelet API server (:10250) is enabled.

It is if the agent is a node of a cluster, or if the configuration requests it: ``enableServer: true``, or any of the
server's fields (a port, a certificate, authentication, …) not at its default. An agent in standalone mode opens no
port without a request.
"""

from typing import Final

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config.settings import Settings
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

_SERVER_FIELDS: Final = (
    *("read_only_port", "port", "address", "tls_cert_file", "tls_private_key_file", "tls_cipher_suites"),
    *("tls_min_version", "server_tls_bootstrap", "authentication", "authorization"),
)


def server_enabled(settings: Settings) -> bool:
    """Whether the kubelet API server is enabled; the module's docstring has the rules."""
    config = settings.config
    if config.enable_server is not None:
        return config.enable_server and config.port > 0
    return config.port > 0 and (settings.cluster is not None or bool(_requesting(config)))


def allows_all(config: KubeletConfiguration) -> bool:
    """Whether every authenticated client may do everything."""
    return config.authorization.mode == "AlwaysAllow"


def check_server(settings: Settings) -> None:
    """Check that a client can be authorized by an enabled server. Raises Invalid, which names the enabling field."""
    config = settings.config
    if settings.cluster is None and server_enabled(settings) and not allows_all(config):
        field = "enableServer" if config.enable_server else _requesting(config)
        raise Invalid(
            f"{field}: enables the kubelet API server, but authorization.mode {config.authorization.mode} needs an API "
            "server: give the agent a kubeconfig, or set authorization.mode to AlwaysAllow with client certificates "
            "(authentication.x509.clientCAFile), or enableServer to false"
        )


def _requesting(config: KubeletConfiguration) -> str:
    """Return the first of the server's fields that is not at its default; empty: all are."""
    default = KubeletConfiguration()
    names = {field.name: field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)}
    return next((names[name] for name in _SERVER_FIELDS if getattr(config, name) != getattr(default, name)), "")
