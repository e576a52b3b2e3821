"""projected: several sources in one directory, in memory. Where two have the same path, the later one wins."""

from pykubelet.base.errors import Invalid, PykubeletError, Unsupported
from pykubelet.kubelet.actuate.volumes.kinds.content_volumes import (
    CONTENT_ATTRIBUTES,
    content_work,
    in_memory,
    read_config_map,
    read_secret,
)
from pykubelet.kubelet.actuate.volumes.plan.payload import (
    DEFAULT_MODE,
    FileProjection,
    aggregate,
    check_size,
    downward_payload,
    total_size,
)
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, Work
from pykubelet.kubelet.types.podspec import each_container
from pykubelet.models.core_v1 import (
    ClusterTrustBundleProjection,
    PodCertificateProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)

_TOKEN_MODE = 0o600
"""Mode of a token if the pod sets a user or an fsGroup; the fsGroup makes it 0640."""


class ProjectedVolume:
    """Plugin for projected volumes; the files are updated with all their sources."""

    name = "kubernetes.io/projected"
    attributes = CONTENT_ATTRIBUTES

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.projected
        assert source is not None
        payload: dict[str, FileProjection] = {}
        problems: list[str] = []
        size = 0
        for index, part in enumerate(source.sources):
            try:
                files = _part(request, part, index, source.default_mode)
            except PykubeletError as error:
                problems.append(str(error))
                continue
            size += total_size(files)
            check_size(size)
            payload |= files
        if problems:
            raise Invalid(aggregate(problems))
        return content_work(request, payload, in_memory)


def _part(request: SetUpRequest, part: VolumeProjection, index: int, mode: int | None) -> dict[str, FileProjection]:
    match part:
        case VolumeProjection(secret=secret) if secret is not None:
            return read_secret(request, secret.name, secret.items, mode, optional=bool(secret.optional))
        case VolumeProjection(config_map=config_map) if config_map is not None:
            return read_config_map(request, config_map.name, config_map.items, mode, optional=bool(config_map.optional))
        case VolumeProjection(downward_api=downward) if downward is not None:
            return downward_payload(downward.items, request.pod, mode, request.context.downward)
        case VolumeProjection(service_account_token=token) if token is not None:
            return _token(request, token, mode)
        case VolumeProjection(cluster_trust_bundle=bundle) if bundle is not None:
            return _bundle(request, bundle, mode)
        case VolumeProjection(pod_certificate=certificate) if certificate is not None:
            return _certificate(request, certificate, index, mode)
        case _:
            raise Invalid("invalid projected volume: a source is empty")


def _token(
    request: SetUpRequest, token: ServiceAccountTokenProjection, default_mode: int | None
) -> dict[str, FileProjection]:
    if request.tokens is None:
        raise Unsupported(
            "a serviceAccountToken needs an API server, which this agent does not have; "
            "set automountServiceAccountToken: false or remove the source"
        )
    return {token.path: _private(request, request.tokens.token(request.pod, token), default_mode)}


def _bundle(
    request: SetUpRequest, bundle: ClusterTrustBundleProjection, default_mode: int | None
) -> dict[str, FileProjection]:
    if request.tokens is None:
        if bundle.optional:
            # An optional bundle that is missing gives an empty file.
            return {bundle.path: _private(request, b"", default_mode)}
        raise Unsupported("a clusterTrustBundle needs an API server, which this agent does not have; use a ConfigMap")
    return {bundle.path: _private(request, request.tokens.trust_anchors(bundle), default_mode)}


def _certificate(
    request: SetUpRequest, certificate: PodCertificateProjection, index: int, default_mode: int | None
) -> dict[str, FileProjection]:
    if request.tokens is None:
        raise Unsupported("a podCertificate needs an API server, which this agent does not have; remove the source")
    key, chain = request.tokens.pod_certificate(request.pod, request.volume.name, index)
    files = (
        (certificate.credential_bundle_path, key + chain),
        (certificate.key_path, key),
        (certificate.certificate_chain_path, chain),
    )
    return {path: _private(request, data, default_mode) for path, data in files if path}


def _private(request: SetUpRequest, data: bytes, default_mode: int | None) -> FileProjection:
    """File that only the pod's user or its fsGroup may read, if the pod sets one."""
    user = _common_user(request)
    mode = DEFAULT_MODE if default_mode is None else default_mode
    if user is not None or request.fs_group is not None:
        mode = _TOKEN_MODE
    return FileProjection(data, mode, user)


def _common_user(request: SetUpRequest) -> int | None:
    """The user that all containers run as, if it is the same; the file is owned by it."""
    spec = request.pod.spec
    default = spec.security_context.run_as_user if spec.security_context else None
    users = {
        c.security_context.run_as_user if c.security_context and c.security_context.run_as_user is not None else default
        for _, c in each_container(request.pod)
    }
    return users.pop() if len(users) == 1 else None
