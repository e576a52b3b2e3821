"""The defaults that the API server would set, for pods of manifests. Pure.

Rules of the core/v1 defaulting of Kubernetes 1.36. Image names are left as they are written.
"""

from typing import Final, TypeVar, overload

from msgspec.structs import replace

from pykubelet.base.image_reference import default_pull_policy
from pykubelet.kubelet.desired.manifest.manifest_types import LocalObject
from pykubelet.kubelet.desired.manifest.pod_level_resources import pod_level_defaults
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta

DEFAULT_GRACE_PERIOD_SECONDS: Final = 30
DEFAULT_TOKEN_SECONDS: Final = 3600
FILE_MODE: Final = 0o644

Handler = TypeVar("Handler", core.Probe, core.LifecycleHandler)
WithMode = TypeVar(
    "WithMode",
    core.ConfigMapVolumeSource,
    core.SecretVolumeSource,
    core.DownwardAPIVolumeSource,
    core.ProjectedVolumeSource,
)


@overload
def with_defaults(value: core.Pod) -> core.Pod: ...
@overload
def with_defaults(value: core.ConfigMap) -> core.ConfigMap: ...
@overload
def with_defaults(value: core.Secret) -> core.Secret: ...
@overload
def with_defaults(value: LocalObject) -> LocalObject: ...
def with_defaults(value: LocalObject) -> LocalObject:
    """Return the object with all defaults set, and a Secret's ``stringData`` merged into ``data``."""
    match value:
        case core.Pod():
            return replace(value, api_version="v1", kind="Pod", spec=_pod_spec(value.spec))
        case core.ConfigMap():
            return replace(value, api_version="v1", kind="ConfigMap", metadata=_namespaced(value))
        case core.Secret():
            merged = value.data | {key: text.encode() for key, text in value.string_data.items()}
            return replace(
                value,
                api_version="v1",
                kind="Secret",
                metadata=_namespaced(value),
                data=merged,
                string_data={},
                type=value.type or "Opaque",
            )


def _namespaced(value: core.ConfigMap | core.Secret) -> ObjectMeta:
    return replace(value.metadata, namespace=value.metadata.namespace or "default")


def _pod_spec(spec: core.PodSpec) -> core.PodSpec:
    host_network = bool(spec.host_network)
    spec = replace(
        spec,
        containers=tuple(_container(each, host_network) for each in spec.containers),
        init_containers=tuple(_container(each, host_network) for each in spec.init_containers),
        volumes=tuple(_volume(each) for each in spec.volumes),
        restart_policy=spec.restart_policy or "Always",
        dns_policy=spec.dns_policy or "ClusterFirst",
        scheduler_name=spec.scheduler_name or "default-scheduler",
        security_context=spec.security_context or core.PodSecurityContext(),
        enable_service_links=_given(spec.enable_service_links, True),
        termination_grace_period_seconds=_given(spec.termination_grace_period_seconds, DEFAULT_GRACE_PERIOD_SECONDS),
    )
    return replace(spec, resources=pod_level_defaults(spec))


def _container(container: core.Container, host_network: bool) -> core.Container:
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or default_pull_policy(container.image),
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        ports=tuple(_port(each, host_network) for each in container.ports),
        env=tuple(_env(each) for each in container.env),
        resources=_resources(container.resources),
        liveness_probe=_probe(container.liveness_probe),
        readiness_probe=_probe(container.readiness_probe),
        startup_probe=_probe(container.startup_probe),
        lifecycle=_lifecycle(container.lifecycle),
    )


def _port(port: core.ContainerPort, host_network: bool) -> core.ContainerPort:
    host_port = port.host_port or (port.container_port if host_network else None)
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def _env(variable: core.EnvVar) -> core.EnvVar:
    source = variable.value_from
    if source is None:
        return variable
    if source.field_ref is not None:
        source = replace(source, field_ref=_field_ref(source.field_ref))
    if source.file_key_ref is not None:
        reference = source.file_key_ref
        source = replace(source, file_key_ref=replace(reference, optional=_given(reference.optional, False)))
    return replace(variable, value_from=source)


def _field_ref(reference: core.ObjectFieldSelector) -> core.ObjectFieldSelector:
    return replace(reference, api_version=reference.api_version or "v1")


def _resources(resources: core.ResourceRequirements | None) -> core.ResourceRequirements | None:
    if resources is None or not resources.limits:
        return resources
    return replace(resources, requests=resources.limits | resources.requests)


def _probe(probe: core.Probe | None) -> core.Probe | None:
    if probe is None:
        return None
    return replace(
        _http(probe),
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
    )


def _lifecycle(lifecycle: core.Lifecycle | None) -> core.Lifecycle | None:
    if lifecycle is None:
        return None
    return replace(
        lifecycle,
        post_start=_http(lifecycle.post_start) if lifecycle.post_start else None,
        pre_stop=_http(lifecycle.pre_stop) if lifecycle.pre_stop else None,
    )


def _http(handler: Handler) -> Handler:
    action = handler.http_get
    if action is None:
        return handler
    return replace(handler, http_get=replace(action, path=action.path or "/", scheme=action.scheme or "HTTP"))


def _volume(volume: core.Volume) -> core.Volume:
    if volume == core.Volume(name=volume.name):
        return replace(volume, empty_dir=core.EmptyDirVolumeSource())
    downward = volume.downward_api
    if downward is not None:
        downward = replace(_mode(downward), items=tuple(_downward_file(each) for each in downward.items))
    projected = volume.projected
    if projected is not None:
        projected = replace(_mode(projected), sources=tuple(_projection(each) for each in projected.sources))
    image = volume.image
    if image is not None:
        image = replace(image, pull_policy=image.pull_policy or default_pull_policy(image.reference))
    return replace(
        volume,
        config_map=_mode(volume.config_map) if volume.config_map else None,
        secret=_mode(volume.secret) if volume.secret else None,
        downward_api=downward,
        projected=projected,
        image=image,
    )


def _mode(source: WithMode) -> WithMode:
    return replace(source, default_mode=_given(source.default_mode, FILE_MODE))


def _downward_file(file: core.DownwardAPIVolumeFile) -> core.DownwardAPIVolumeFile:
    return replace(file, field_ref=_field_ref(file.field_ref)) if file.field_ref else file


def _projection(source: core.VolumeProjection) -> core.VolumeProjection:
    if source.downward_api is not None:
        items = tuple(_downward_file(each) for each in source.downward_api.items)
        source = replace(source, downward_api=replace(source.downward_api, items=items))
    token = source.service_account_token
    if token is not None:
        token = replace(token, expiration_seconds=_given(token.expiration_seconds, DEFAULT_TOKEN_SECONDS))
        source = replace(source, service_account_token=token)
    return source


T = TypeVar("T")


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
