"""Composition of the kubelet API server (:10250), if it is enabled (``config/server.py``)."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.text import without_credentials
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri.plan.runtime_lists import bare_pods
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import allows_all, server_enabled
from pykubelet.kubelet.observe.stats import NodeUsage
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.serve.common.binding import Listen
from pykubelet.kubelet.serve.local_api import HealthCheck, PodsView
from pykubelet.kubelet.serve.streams import StreamOptions, Streams
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.models import codec
from pykubelet.models.authentication_v1 import TokenReview
from pykubelet.models.authorization_v1 import SubjectAccessReview
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb

if TYPE_CHECKING:
    from pykubelet.apiclient import ApiClient
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess
    from pykubelet.kubelet.serve.kubelet_api import CertFiles, KubeletApiServer, KubeletApiServerConfig

_RUN_SECONDS: Final = 120.0


class KubeletApiDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the kubelet API server."""

    pods: PodsView
    cri: CriClient
    streams: Streams
    usage: NodeUsage
    checks: Mapping[str, HealthCheck]
    access: "ApiAccess | None"
    """None: there is no API server."""
    telemetry: Telemetry[KubeletMetrics]
    listen: Listen


def build_kubelet_api(settings: Settings, deps: KubeletApiDeps) -> "KubeletApiServer | None":
    """Build the server; None if it is not enabled."""
    if not server_enabled(settings):
        return None
    # Imported here, since most agents in standalone mode have no such server.
    from pykubelet.kubelet.serve.kubelet_api import CertFiles, EffectiveConfig, KubeletApiServer, KubeletApiServerDeps

    config, access = settings.config, deps.access
    given = CertFiles(Path(config.tls_cert_file), Path(config.tls_private_key_file)) if config.tls_cert_file else None
    server_deps = KubeletApiServerDeps(
        pods=deps.pods,
        runtime=RuntimeAccess(deps.cri, deps.streams),
        stats=deps.usage,
        checks={"ping": deps.checks["ping"], "log": log_fault, **deps.checks},
        effective=EffectiveConfig(configuration=partial(configuration, settings), flags=settings.flags),
        certificate=partial(_serving_files, given, access),
        reviews=Reviews(access.client) if access is not None else None,
        telemetry=deps.telemetry,
    )
    return KubeletApiServer(_server_config(settings), server_deps, listen=deps.listen)


def _serving_files(given: "CertFiles | None", access: "ApiAccess | None") -> "CertFiles | None":
    """Return the configured serving certificate, else the one that the cluster has signed, if any."""
    from pykubelet.kubelet.serve.kubelet_api import CertFiles

    pair = access.serving() if given is None and access is not None else None
    return CertFiles(pair.certificate, pair.key) if pair is not None else given


def check_tls_names(settings: Settings) -> None:
    """Check ``tlsMinVersion`` and ``tlsCipherSuites``. Raises Invalid for an unknown name."""
    from pykubelet.kubelet.serve.kubelet_api import ciphers, minimum_version

    minimum_version(settings.config.tls_min_version)
    ciphers(settings.config.tls_cipher_suites)


def check_files(settings: Settings) -> None:
    """Check that the configured certificate, key and client CA can be used. Raises Invalid. Blocks."""
    from pykubelet.kubelet.serve.kubelet_api import check_certificate, check_client_ca

    config = settings.config
    if config.tls_cert_file:
        check_certificate(Path(config.tls_cert_file), Path(config.tls_private_key_file))
    if config.authentication.x509.client_ca_file:
        check_client_ca(Path(config.authentication.x509.client_ca_file))


def configuration(settings: Settings) -> Mapping[str, object]:
    """Return the effective configuration for /configz, without the password and header values of the manifest URL."""
    config = replace(
        settings.config,
        enable_server=server_enabled(settings),
        container_runtime_endpoint=settings.runtime_endpoint,
        image_service_endpoint=settings.image_endpoint,
        static_pod_url=without_credentials(settings.config.static_pod_url),
        static_pod_url_header=dict.fromkeys(settings.config.static_pod_url_header, ("<masked>",)),
    )
    plain = codec.to_builtins(config)
    assert isinstance(plain, dict)
    return plain


class RuntimeAccess(Struct, frozen=True):
    """The ``NodeRuntime`` of the kubelet API server."""

    cri: CriClient
    streams: Streams

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        return await self.streams.exec_url(container, options)

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        return await self.streams.attach_url(container, options)

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        return await self.streams.port_forward_url(uid, ports)

    async def run(self, container: ContainerID, command: Sequence[str]) -> tuple[int, bytes]:
        reply = await self.cri.exec_sync(container, command, _RUN_SECONDS)
        return reply.exit_code, b"".join((reply.stdout, reply.stderr))

    async def checkpoint(self, container: ContainerID, archive: Path, timeout: Seconds) -> None:
        await self.cri.checkpoint_container(container, str(archive), timeout)

    async def running_pods(self) -> Sequence[Pod]:
        """Return the pods of running containers, by the runtime's labels."""
        running = pb.ContainerStateValue(state=pb.ContainerState.CONTAINER_RUNNING)
        return bare_pods(await self.cri.list_containers(pb.ContainerFilter(state=running)))


class Reviews(Struct, frozen=True):
    """The ``ReviewApi`` of the kubelet API server."""

    client: "ApiClient"

    async def create_token_review(self, review: TokenReview) -> TokenReview:
        from pykubelet.apiclient.resources import TOKEN_REVIEWS

        return await self.client.create(TOKEN_REVIEWS.all(), review)

    async def create_subject_access_review(self, review: SubjectAccessReview) -> SubjectAccessReview:
        from pykubelet.apiclient.resources import SUBJECT_ACCESS_REVIEWS

        return await self.client.create(SUBJECT_ACCESS_REVIEWS.all(), review)


def _server_config(settings: Settings) -> "KubeletApiServerConfig":
    from pykubelet.kubelet.serve.kubelet_api import AuthConfig, KubeletApiServerConfig, TlsConfig

    config, seconds = settings.config, settings.seconds
    authn, authz = config.authentication, config.authorization
    client_ca = authn.x509.client_ca_file
    return KubeletApiServerConfig(
        node_name=settings.node_name,
        address=config.address,
        port=config.port,
        read_only_port=config.read_only_port,
        addresses=settings.node_ips,
        pki_dir=settings.cluster.cert_dir if settings.cluster is not None else settings.root_dir / "pki",
        tls=TlsConfig(config.tls_min_version, config.tls_cipher_suites, Path(client_ca) if client_ca else None),
        auth=AuthConfig(
            anonymous=authn.anonymous.enabled,
            token_webhook=authn.webhook.enabled,
            token_ttl=seconds(authn.webhook.cache_ttl),
            always_allow=allows_all(config),
            allowed_ttl=seconds(authz.webhook.cache_authorized_ttl),
            denied_ttl=seconds(authz.webhook.cache_unauthorized_ttl),
        ),
        pod_logs_dir=settings.pod_log_dir,
        checkpoints_dir=settings.root_dir / "checkpoints",
        debugging_handlers=config.enable_debugging_handlers,
        system_log_handler=config.enable_system_log_handler,
        system_log_query=config.enable_system_log_query,
        profiling_handler=config.enable_profiling_handler,
        debug_flags_handler=config.enable_debug_flags_handler,
    )


def log_fault() -> str | None:
    """Return why the agent's own log is lost, or None."""
    for handler in logging.getLogger().handlers:
        stream = getattr(handler, "stream", None)
        if stream is not None and stream.closed:
            return "the log's stream is closed"
    return None
