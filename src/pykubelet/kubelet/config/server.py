"""Whether the kubelet API server (:10250) is enabled.

It is if the agent is a node of a cluster, or if the configuration requests it: ``enableServer: true``, or any of the
server's fields (a port, a certificate, authentication, …) not at its default. An agent in standalone mode opens no
port without a request.
"""

from typing import Final

from pykubelet.kubelet.config.settings import Settings
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

_SERVER_FIELDS: Final = (
    *("address", "port", "read_only_port", "tls_cert_file", "tls_private_key_file", "tls_cipher_suites"),
    *("tls_min_version", "server_tls_bootstrap", "authentication", "authorization"),
)


def server_enabled(settings: Settings) -> bool:
    """Whether the kubelet API server is enabled; the module's docstring has the rules."""
    config, default = settings.config, KubeletConfiguration()
    if config.enable_server is not None:
        return config.enable_server and config.port > 0
    requested = any(getattr(config, name) != getattr(default, name) for name in _SERVER_FIELDS)
    return config.port > 0 and (settings.cluster is not None or requested)
